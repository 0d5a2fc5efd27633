"""The learners; `registry` lists them, and `corank` exports them."""
