"""One file per published figure or table, each with a `STUDY`; a new file is a new study."""
