"""Studies of what a model does: which inputs an output depends on."""
