"""The inbox: reviews that wait for a person, reviews that wait for others, and problems."""
