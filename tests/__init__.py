"""The tests of Tandem; a package, so that test modules can share `tests.postgres` and the like."""
