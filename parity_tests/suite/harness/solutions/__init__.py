"""Solutions in processes of their own."""
