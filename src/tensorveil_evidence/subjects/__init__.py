"""Every mechanism of the project as a subject of audit, by name."""
