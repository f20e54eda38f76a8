"""What the studies of learning on perturbed tensors share (Yuan et al., section 5)."""
