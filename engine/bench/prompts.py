"""Prompts of three kinds for measurements, of our own writing. Knows nothing of what is measured with them.

"copy" are prompts that the default model really answers by copying; it does not obey every request to repeat a text.
"""

_GARDEN = (
    "The community garden on Mill Lane opened in April 1987 on the site of an old rope factory. It has forty-two "
    "plots, a shared greenhouse, two beehives and a pond. Members pay a small fee each spring and promise to spend "
    "four hours a month on common work. In 2011 a storm brought down the greenhouse; it was rebuilt within a year "
    "with glass that a nearby school gave away. The garden sells honey and seedlings at the summer fair, and the "
    "money pays for tools, water and the repair of paths. A waiting list of thirty names shows how much the "
    "neighbours like it."
)
_DELIVERIES = """1. Apples from the orchard, two crates, delivered on Monday
2. Bread from the bakery on Hill Street, twelve loaves
3. Cheese from the dairy, four wheels, paid in advance
4. Dried beans from the market, three sacks
5. Eggs from the farm, ten boxes, to be checked
6. Flour from the mill, two sacks, delivered on Tuesday
7. Grapes from the vineyard, one crate
8. Honey from the garden, fifteen jars, without labels
9. Lemons from the harbour, one box, delivered on Friday
10. Milk from the dairy, forty bottles, to be returned"""
_CLASS = """class Account:
    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError('amount must be positive')
        self.balance += amount

    def withdraw(self, amount):
        if amount > self.balance:
            raise ValueError('not enough money')
        self.balance -= amount
"""

KINDS: dict[str, tuple[str, ...]] = {
    "copy": (
        f"Correct the spelling of this text and change nothing else:\n\n{_GARDEN}",
        f"Repeat this list exactly:\n\n{_DELIVERIES}",
        f"Write out this Python class again without any change:\n\n{_CLASS}",
    ),
    "chat": (
        "What should I think about before I adopt a dog?",
        "Explain to a child why the sky is blue.",
        "Give me three ideas for a rainy Sunday and say why each is fun.",
    ),
    "code": (
        "Write a Python function that returns the n-th Fibonacci number, with a short explanation.",
        "Write a Python function that reads a CSV file and returns the mean of a column.",
        "Write a Python class for a stack with push, pop and peek.",
    ),
}
