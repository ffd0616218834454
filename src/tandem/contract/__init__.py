"""What every operation is made of: the request, the caller, the roles, and the registry that names them all."""
