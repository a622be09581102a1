"""What several families of checks measure."""
