"""What was compacted before: the difference of two lists, how it is found again, taken back and derived anew."""
