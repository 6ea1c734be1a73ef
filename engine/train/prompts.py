"""Prompts to train drafters on, of our own writing: sentence patterns filled with subjects.

Knows nothing of models. What measurements are made on (engine/bench) is written separately: no prompt is in both.
"""

import itertools
import random

_SUBJECTS = """photosynthesis; the water cycle; black holes; inflation in an economy; the French Revolution;
vaccines; how bridges carry weight; the human heart; tides; volcanoes; the printing press; compound interest;
democracy; glaciers; how a refrigerator works; the immune system; earthquakes; jazz music; chess openings;
the Silk Road; bees and flowers; electric cars; the moon landing; DNA; coral reefs; supply and demand;
the Roman Empire; how sleep works; machine learning; lightning; the stock market; renewable energy;
the digestive system; ancient Egypt; how airplanes fly; bread baking; the solar system; antibiotics;
how computers store numbers; the Renaissance; magnets; rainforests; recycling; radio waves; how memory works;
dinosaurs; the internet; cheese making; stars; public libraries; rivers and erosion; the violin; search engines;
the Olympic Games; neurons; batteries; clouds; the scientific method; encryption; ocean currents;
the industrial revolution; migration of birds; cooking rice; plate tectonics; gravity; nuclear power;
the cell membrane; fermentation; the calendar; friction; hibernation; satellites; soil; the novel as an art form;
weather forecasts; taxes; insurance; photography; the alphabet; maps; desert plants; whales; the ozone layer; sound;
bicycles; ceramics; tea; insulin; the steam engine; probability; prime numbers; logic gates; operating systems;
databases; viruses; opera; silk"""
_EXPLAIN = """Explain {} in simple terms.; What is the most important thing to know about {}?; Tell me about {}.;
Why does {} matter?; Give me five facts about {}.; Write a short essay about {}.;
How would you teach {} to a ten-year-old?; What are common mistakes people make about {}?;
Describe {} in two paragraphs.; What are the main parts of {}?; Write three quiz questions about {} with answers.;
What is the history of {}?; Compare {} with something from daily life.;
I have an exam about {} tomorrow. Summarize what I need to know.; What questions about {} are still open?"""

_TASKS = """returns the larger of two numbers; counts the vowels in a string; reverses a list;
checks whether a word is a palindrome; computes the factorial of n; sorts a list of dictionaries by a key;
removes duplicates from a list; flattens a nested list; converts Celsius to Fahrenheit;
finds the longest word in a sentence; merges two sorted lists; counts words in a text file;
computes the greatest common divisor; checks whether a number is prime; transposes a matrix;
rotates a list by k places; parses a date string; validates an email address; groups words by their first letter;
computes a running average; finds the second largest number; generates a random password;
converts a number to binary; computes the dot product; removes punctuation from a string;
finds the common elements of two lists; splits a list into chunks; counts letters; reads a JSON file;
writes a list to a CSV file; computes the sum of the digits; finds missing numbers in a sequence;
implements binary search; implements bubble sort; implements a queue with two stacks; computes compound interest;
capitalizes every word; checks whether two words are anagrams; prints a multiplication table;
zips two lists to a dict"""
_CODE = """Write a Python function that {}.; Write a Python function that {} and explain each line.;
How do I write code that {}?; Write a JavaScript function that {}.;
Write a Python function that {}, with a docstring and two tests.;
Show me a short program that {} and how to call it."""

_NAMES = [
    "Maria",
    "Tom",
    "Aisha",
    "Ken",
    "Lena",
    "Omar",
    "Sofia",
    "Raj",
    "Emma",
    "Liu",
    "Paul",
    "Nina",
    "Sam",
    "Ivy",
    "Hugo",
    "Zoe",
]
_THINGS = [
    "apples",
    "books",
    "pencils",
    "stamps",
    "marbles",
    "coins",
    "tickets",
    "cookies",
    "stickers",
    "plants",
    "cards",
    "shells",
]
_SUMS = """{name} has {a} {thing} and buys {b} more. Then {name} gives away {c}. How many {thing} are left?;
A box holds {a} {thing}. How many {thing} are in {b} boxes?;
{name} reads {a} pages a day. How many pages is that in {b} days?;
{name} shares {d} {thing} equally among {b} friends. How many does each friend get?;
What is {a} times {b} plus {c}?; A train travels {a} kilometers per hour for {b} hours. How far does it go?;
{name} saves {a} dollars a week. How long until {name} has {d} dollars?;
A shirt costs {d} dollars and is {b}0 percent off. What does it cost now?; Solve for x: {b}x + {c} = {d}.;
The sides of a rectangle are {a} and {b}. What are its area and perimeter?"""

_SITUATIONS = """I have a job interview next week; my cat does not eat; I want to learn the guitar;
I can not sleep well; my neighbor is noisy; I want to save money; I am planning a trip to Italy; my laptop is slow;
I want to run five kilometers; my friend forgot my birthday; I need a gift for my mother; I want to read more;
I feel stressed at work; I moved to a new city; my plants are dying; I want to eat healthier;
I have to give a speech; my child is afraid of the dark; I want to cook for six people; I lost my keys;
I want to write a blog; my team misses deadlines; I want to learn Spanish; I am bored on weekends;
I want to start a small business; my bike has a flat tire; I need to apologize to a colleague;
I want to paint my room"""
_ADVICE = """{}. What should I do?; {}. Give me a step by step plan.; {}. Can you help?;
{}. What are three good ideas?; Write a short message to a friend: {}.;
{}. What questions should I ask myself first?; {}. Make me a checklist."""

_SCENES = """a lighthouse keeper; a robot that paints; two brothers on a raft; a lost letter;
a village without clocks; a talking fox; a baker at night; a storm at sea; the last tree; a train that never stops;
a girl who collects sounds; an honest thief; a chess game with the king; a dragon afraid of fire; the first snow;
an old photograph; a library under water; a blind painter; a market on the moon; a dog that waits; a hidden garden;
the clockmaker's daughter; a map with one mistake; a quiet soldier"""
_CREATE = """Write a short story about {}.; Write a poem about {}.; Write the first paragraph of a novel about {}.;
Write a dialogue between two people about {}.; Give me a title and a summary for a film about {}.;
Describe {} in one vivid paragraph."""

_SENTENCES = """Good morning, how are you today?; Where is the train station?;
The weather is beautiful this afternoon.; I would like a cup of coffee, please.;
My sister lives in a small town near the sea.; We will meet tomorrow at nine.;
The book on the table belongs to my teacher.; Thank you for your help.; How much does this cost?;
I am learning to cook.; The children are playing in the garden.; Can you open the window?;
He forgot his umbrella on the bus.; I love old films.; The museum is closed on Mondays.;
Please send me the report before noon.; Our flight was delayed by two hours.;
She has been working here for ten years.; The river is very deep here.; What time does the shop open?"""
_TRANSLATE = """Translate into {language}: {sentence}; How do you say "{sentence}" in {language}?;
Translate this sentence to {language} and explain the grammar: {sentence}"""
_LANGUAGES = ["French", "Spanish", "German", "Italian", "Portuguese", "Chinese"]

_CHINESE = """什么是光合作用？; 请介绍一下北京。; 怎样学好英语？; 写一首关于春天的诗。; 为什么天空是蓝色的？;
请解释什么是人工智能。; 给我三个健康饮食的建议。; 如何提高睡眠质量？; 中国有哪些传统节日？;
请写一个关于友谊的小故事。; 什么是通货膨胀？; 怎样做番茄炒蛋？; 请用中文写一封感谢信。; 地球为什么会有四季？;
介绍一下长城的历史。; 如何准备面试？; 水的沸点是多少？; 请列出五种水果。; 什么是机器学习？; 怎样保护环境？;
请翻译成英文：我今天很高兴。; 请翻译成英文：明天我们去公园。; 什么是数据库？; 讲一个笑话。;
请写一个 Python 函数，计算两个数的和。; 月亮为什么会发光？; 如何学习编程？; 请写一段自我介绍。; 什么是民主？;
介绍一种你喜欢的动物。"""

SUMMARIES = (
    "Summarize the following text in two sentences:\n\n{}",
    "What is the main point of this text?\n\n{}",
    "Rewrite this text so that it is shorter:\n\n{}",
    "Turn this into a list of bullet points:\n\n{}",
    "Read the text and answer: what is it about, and who would want to read it?\n\n{}",
    "Use only the passage below. Passage: {}\n\nQuestion: what does the passage say first, and what last?",
    "Correct any mistakes in this text:\n\n{}",
)


def own_prompts(seed: int = 0) -> list[str]:
    """Every pattern with every subject, shuffled: some thousands, the same for the same seed."""
    chance = random.Random(seed)
    prompts = _filled(_EXPLAIN, _SUBJECTS) + _filled(_CODE, _TASKS) + _filled(_ADVICE, _SITUATIONS)
    prompts += _filled(_CREATE, _SCENES) + listed(_CHINESE)
    for pattern, language, sentence in itertools.product(listed(_TRANSLATE), _LANGUAGES, listed(_SENTENCES)):
        prompts.append(pattern.format(language=language, sentence=sentence))
    for pattern, name in itertools.product(listed(_SUMS), _NAMES):
        a, b, c = chance.randint(11, 60), chance.randint(2, 9), chance.randint(1, 10)
        values = {"a": a, "b": b, "c": c, "d": a * b + c, "name": name, "thing": chance.choice(_THINGS)}
        prompts.append(pattern.format(**values))
    chance.shuffle(prompts)
    return list(dict.fromkeys(prompts))


def about_text(passage: str, number: int) -> str:
    """A prompt that puts a passage before the model: to sum up, shorten, correct, or answer from."""
    return SUMMARIES[number % len(SUMMARIES)].format(passage)


def _filled(patterns: str, subjects: str) -> list[str]:
    return [pattern.format(subject) for pattern, subject in itertools.product(listed(patterns), listed(subjects))]


def listed(text: str) -> list[str]:
    """The items of a text that are separated by semicolons."""
    return [" ".join(item.split()) for item in text.split(";")]
