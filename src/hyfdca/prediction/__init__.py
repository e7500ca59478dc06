"""Predictions for complete rows and for rows split over organisations."""
