"""An organisation's side of a study."""
