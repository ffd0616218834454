"""`tandem rollback`: taking back what was committed before its review and then decided against."""
