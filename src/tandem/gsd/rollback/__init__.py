"""`tandem rollback`: reverting commits whose reviews, made later, decided against them."""
