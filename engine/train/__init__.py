"""How the shipped drafters were made: answers, features, losses, loops. Run by `python -m engine.train`."""
