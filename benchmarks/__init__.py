"""Speed and memory beside other libraries."""
