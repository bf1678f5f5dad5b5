"""What papers propose, reproduced for comparison only."""
