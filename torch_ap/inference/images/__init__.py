"""Rankings whose items belong to images, which are resampled whole."""
