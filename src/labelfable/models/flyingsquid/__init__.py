"""FlyingSquid: accuracies in closed form from triplets of sources."""
