"""Tables, figures and pages of the paper's study."""
