"""Walking a plan, and what is known of values while it is walked."""
