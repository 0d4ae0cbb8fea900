"""One door a framework, named as its adapter: each module has a `DOOR`, and the adapter contract runs over all."""
