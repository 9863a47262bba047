"""What is done to a group, one function for each action, which says what it causes and when."""
