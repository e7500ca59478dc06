"""Labels that some holders lack, and sums of weights over all rows."""
