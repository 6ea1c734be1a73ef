"""Prompts of three kinds for measurements, of our own writing. Knows nothing of what is measured with them.

"copy" are prompts that the default model really answers by copying, almost word for word. They were chosen for that
out of fifteen: it does not obey every request to repeat a text.
"""

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

_RECORD = """{
  "name": "Mill Lane Garden",
  "opened": 1987,
  "plots": 42,
  "beehives": 2,
  "greenhouse": true,
  "fee": 15,
  "hours": 4,
  "contact": {
    "person": "Anna Reed",
    "phone": "555-0142",
    "email": "anna@example.org"
  },
  "tools": ["spade", "rake", "hoe", "barrow"]
}"""
_LETTER = (
    "Dear Mrs Reed, thank you for your letter of the third of May. The repair of the greenhouse will begin on Monday "
    "and will take about two weeks. During this time the north path is closed, and the water is turned off between "
    "nine and eleven in the morning. Please tell the members to use the gate on Hill Street. The glass arrives on "
    "Friday, and two volunteers are needed to unload it. With kind regards, Tom Baker"
)

KINDS: dict[str, tuple[str, ...]] = {
    "copy": (
        f"Correct the spelling of this letter and change nothing else:\n\n{_LETTER}",
        f"Repeat this JSON file exactly:\n\n{_RECORD}",
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
