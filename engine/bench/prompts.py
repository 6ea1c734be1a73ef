"""Prompts of three kinds for measurements, of our own writing. Knows nothing of what is measured with them."""

_GARDEN = (
    "The community garden on Mill Lane opened in April 1987 on the site of an old rope factory. It has forty-two "
    "plots, a shared greenhouse, two beehives and a pond. Members pay a small fee each spring and promise to spend "
    "four hours a month on common work. In 2011 a storm brought down the greenhouse; it was rebuilt within a year "
    "with glass that a nearby school gave away. The garden sells honey and seedlings at the summer fair, and the "
    "money pays for tools, water and the repair of paths. A waiting list of thirty names shows how much the "
    "neighbours like it."
)
_MINUTES = (
    "Minutes of the meeting of 12 March. Present: Adams, Baker, Chen, Diaz. Item 1: the roof. Baker reported that "
    "three offers had come in, the lowest at 8,400. It was agreed to accept the lowest offer if the firm can start in "
    "May. Item 2: the library. Chen asked for two more shelves and a lamp. Agreed. Item 3: the newsletter. Diaz will "
    "write the next issue and send a draft to all by 1 April. Item 4: any other business. Adams reminded everyone "
    "that the keys must be returned. The next meeting is on 9 April at seven in the evening."
)
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
        f"Repeat the following text word for word.\n\n{_GARDEN}",
        f"Copy these minutes exactly as they are.\n\n{_MINUTES}",
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
