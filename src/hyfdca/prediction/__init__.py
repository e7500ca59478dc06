"""Predictions, of complete rows and of rows split over organisations."""
