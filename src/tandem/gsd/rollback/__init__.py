"""`tandem rollback`: reverting what was committed before its review and then decided against."""
