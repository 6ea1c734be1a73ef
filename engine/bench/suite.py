"""Prompts of eight categories in the spirit of Spec-Bench (Xia et al., ACL Findings 2024), of our own writing.

Knows nothing of drafters. SUITE is what is reported; TUNING is what settings are chosen on; no prompt is in both, nor
among those that drafters are trained on.
"""

_GARDEN = (
    "The community garden on Mill Lane was opened in 1987 on land where a dairy had stood. It has forty-two plots, two "
    "beehives and a greenhouse that volunteers rebuilt after the storm of 2013. Members pay fifteen pounds a year and "
    "give four hours of work each month. What they do not eat goes to the food bank in Castle Street."
)
_BRIDGE = (
    "Engineers closed the Harbour Bridge on Tuesday after a routine inspection found cracks in two of its steel "
    "hangers. "
    "The bridge carries about thirty thousand vehicles a day. Repairs are expected to take six weeks, and a free ferry "
    "will run every ten minutes from seven in the morning until eleven at night. Shop owners near the bridge fear that "
    "they will lose a third of their customers."
)
_OWL = (
    "Barn owls hunt at night and find their prey by sound. Their face is a shallow dish of stiff feathers that leads "
    "sound to the ears, one of which sits higher than the other. From the small difference in time and loudness the "
    "owl "
    "knows where a mouse is, even under snow. The edges of its wing feathers are soft like a comb, so that the mouse "
    "hears nothing until it is too late."
)
_SHIP = (
    "The sailing ship Aurora left Bergen in March 1891 with a crew of nineteen and a load of dried fish for Lisbon. "
    "Off "
    "the coast of Brittany she lost her mast in a gale. A French steamer took her in tow and brought her to Brest, "
    "where "
    "she was repaired in five weeks. The captain, Nils Dahl, wrote that the fish had suffered less than the men."
)
_MEETING = (
    "Present were Anna, Joel, Priya and Marc. The launch moves from the second to the sixteenth of June because the "
    "payment tests are not finished. Priya will write the new test plan by Friday. Joel reported that the cost of the "
    "servers rose by twelve percent in April. Marc asks for two more people on the help desk; this is decided next "
    "week."
)
_SALT = (
    "For a long time salt was so precious that towns grew rich on it. It was boiled out of brine in large iron pans, "
    "and "
    "a single pan burned a cartload of wood every day, so that forests around the salt towns disappeared. When "
    "railways "
    "brought cheap rock salt, most of the pans went cold within twenty years."
)
_LIBRARY = (
    "The city library lends books for four weeks and films for one. A loan can be renewed twice unless somebody else "
    "is "
    "waiting. Late books cost ten cents a day, at most five euros. Children pay nothing. The reading room on the "
    "second "
    "floor is open until midnight on weekdays and until six on Saturdays; on Sundays the library is closed."
)
_SLEEP = (
    "In a study of 212 students, those who slept less than six hours before an exam scored nine points lower on "
    "average "
    "than those who slept eight. Coffee in the morning made no difference. The authors warn that students who worry "
    "may "
    "both sleep badly and do badly, so that one need not cause the other."
)

SUITE: dict[str, tuple[str, ...]] = {
    "chat": (
        "My grandmother turns eighty next month. How can we make the day special for her?",
        "I keep forgetting people's names. Is there a trick?",
        "Should I rent or buy a flat if I may move again in three years?",
        "Write a friendly note asking my neighbours to keep the stairwell clear.",
        "What would you pack for a week of hiking in the rain?",
        "I have two job offers, one with more money and one with better hours. Help me decide.",
        "Invent a board game for a long train ride and explain its rules.",
        "How do I tell my flatmate that I am moving out?",
    ),
    "translation": (
        "Translate into German: The keys are under the flower pot next to the door.",
        "Translate into French: We would like a table for four near the window, please.",
        "Translate into Spanish: If it rains tomorrow, the match will take place on Sunday.",
        "Translate into Italian: My brother repairs old clocks in a small shop behind the church.",
        "Translate into English: Der Zug nach Hamburg fährt heute von Gleis sieben ab.",
        "Translate into English: Je ne retrouve plus mes lunettes, les as-tu vues quelque part ?",
        "Translate into English: Mañana por la mañana iremos al mercado para comprar pescado y verduras.",
        "Translate into Portuguese: She sings in a choir every Thursday evening.",
    ),
    "summary": (
        f"Summarise in two sentences:\n\n{_GARDEN}",
        f"Give me a headline and one sentence for this report:\n\n{_BRIDGE}",
        f"Sum this up for a child:\n\n{_OWL}",
        f"Summarise what happened, in order:\n\n{_SHIP}",
        f"Write the three most important points of these minutes as a list:\n\n{_MEETING}",
        f"Shorten this text to half its length:\n\n{_SALT}",
        f"Summarise the rules in four short lines:\n\n{_LIBRARY}",
        f"What did the study find, and what does it not prove?\n\n{_SLEEP}",
    ),
    "qa": (
        "Which planet has the most moons, and why does it have so many?",
        "Who painted the ceiling of the Sistine Chapel, and how long did it take?",
        "Why do onions make us cry?",
        "What is the difference between a crocodile and an alligator?",
        "How does a microwave oven heat food?",
        "What causes a rainbow?",
        "Why is the sea salty but a lake usually not?",
        "What did the Rosetta Stone make possible?",
    ),
    "maths": (
        "A baker fills 14 trays with 24 rolls each and sells 289 rolls. How many are left? Show the steps.",
        "A car uses 6 litres of petrol per 100 kilometres. How much does it use for 350 kilometres?",
        "The sum of three consecutive numbers is 72. Which numbers are they?",
        "A jacket costs 80 euros. It is first reduced by 25 percent and then by another 10 percent. What is its price?",
        "Two pumps fill a pool in 6 and 3 hours. How long do both need together?",
        "What is the area of a circle with a diameter of 10 centimetres?",
        "Solve 5x - 7 = 3x + 15 and check the result.",
        "In a class of 30, 18 play football and 15 play tennis; 8 play both. How many play neither?",
    ),
    "rag": (
        f"Answer from the passage only.\n\nPassage: {_GARDEN}\n\nQuestion: What do members have to give?",
        f"Answer from the passage only.\n\nPassage: {_BRIDGE}\n\nQuestion: How can people cross while the bridge is "
        "closed?",
        f"Answer from the passage only.\n\nPassage: {_OWL}\n\nQuestion: How does the owl know where a mouse is?",
        f"Answer from the passage only.\n\nPassage: {_SHIP}\n\nQuestion: Where was the ship repaired, and how long "
        "did it take?",
        f"Answer from the passage only.\n\nPassage: {_MEETING}\n\nQuestion: Why does the launch move, and to which "
        "day?",
        f"Answer from the passage only.\n\nPassage: {_SALT}\n\nQuestion: Why did the forests disappear?",
        f"Answer from the passage only.\n\nPassage: {_LIBRARY}\n\nQuestion: What does a late book cost?",
        f"Answer from the passage only.\n\nPassage: {_SLEEP}\n\nQuestion: Did coffee help?",
    ),
    "code": (
        "Write a Python function that finds all pairs in a list that sum to a given number.",
        "Write a Python class for a bank queue with priorities, and show how to use it.",
        "Write a Python function that turns a Roman numeral into an integer.",
        "Write a JavaScript function that debounces another function, and explain it.",
        "Write an SQL query that lists customers with more than three orders in 2023.",
        "Write a Python script that renames all files in a folder to lower case.",
        "Write a Python function that draws Pascal's triangle with n rows.",
        "Fix this function and say what was wrong:\n\ndef mean(values):\n    total = 0\n    for v in values:\n"
        "        total = v\n    return total / len(values)",
    ),
    "chinese": (
        "请介绍一下熊猫的生活习性。",
        "怎样写好一封求职信？",
        "请用三句话说明为什么要多喝水。",
        "请推荐一个周末的短途旅行计划。",
        "什么是区块链？请用简单的话解释。",
        "请写一个关于猫和老鼠的小故事。",
        "请翻译成英文：图书馆每天早上九点开门。",
        "学习外语时怎样记单词？",
    ),
}

TUNING: dict[str, tuple[str, ...]] = {
    "chat": (
        "My dog barks whenever the doorbell rings. What can I try?",
        "Plan a birthday party for six children on a small budget.",
        "I feel nervous before phone calls. Any advice?",
        "What could I cook tonight with rice, carrots and one egg?",
        "My neighbour plays the trumpet at night. How do I talk to him?",
        "Suggest three names for a small bookshop by the sea.",
    ),
    "translation": (
        "Translate into German: The shop closes at half past six.",
        "Translate into French: My aunt grows tomatoes on her balcony.",
        "Translate into English: El tren llega con veinte minutos de retraso.",
        "Translate into Spanish: We left the keys with the baker next door.",
        "Translate into Italian: The bridge is open again from Saturday on.",
        "Translate into English: Meine Schwester arbeitet in einer Gärtnerei am Stadtrand.",
    ),
    "summary": (
        "Summarise in one sentence:\n\nThe council voted on Monday to plant six hundred trees along the ring road. "
        "The work "
        "starts in October and costs ninety thousand euros, half of which comes from a national fund.",
        "Give the main points as a list:\n\nThe old mill has been a school, a store and a cinema. Since May it has "
        "been a "
        "museum of paper. Visitors can make a sheet of their own, and every first Sunday entry is free.",
        "Shorten this text:\n\nIn winter the lighthouse was cut off for weeks. The keeper kept a diary in which he "
        "noted "
        "the wind, the ships and what he ate. On the last page he writes that he has grown used to the silence.",
        "Summarise this in two sentences:\n\nThe bakery in Station Road has changed its ovens. They burn wood pellets "
        "now and use a third less energy. The bread takes four minutes longer, and the baker says that its crust has "
        "become better.",
        "What are the key facts here?\n\nA storm on Sunday night closed the ferry to the island. About two hundred "
        "guests slept in the school. The first boat left at nine on Monday with medicine, milk and the post on board.",
        "Give this text a title and one sentence of summary:\n\nStudents of the technical school have built a cart "
        "that cleans the beach. It runs on sunlight, is as slow as a walker and picks up what is larger than a coin. "
        "In its first week it collected eighty kilograms.",
    ),
    "qa": (
        "Why do leaves change their colour in autumn?",
        "What is the difference between weather and climate?",
        "How does a thermos flask keep tea hot?",
        "Why does bread rise when it is baked?",
        "What did people use before there were clocks?",
        "How do bees find their way home?",
    ),
    "maths": (
        "A farmer packs 156 eggs into boxes of 12. How many boxes does he need?",
        "What is 15 percent of 240? Show how you get it.",
        "A ladder of 5 metres leans on a wall, its foot 3 metres away. How high does it reach?",
        "A bus leaves at 9:40 and arrives at 11:25. How long does it travel?",
        "Anna reads 24 pages a day. After how many days has she finished a book of 336 pages?",
        "Solve for x: 3x + 7 = 40. Explain each step.",
    ),
    "rag": (
        "Answer from the passage only.\n\nPassage: The museum shows 1,200 clocks. The oldest was made in 1532 in "
        "Nuremberg. "
        "All of them are wound on Mondays, when the museum is closed.\n\nQuestion: When are the clocks wound?",
        "Answer from the passage only.\n\nPassage: The new tram line has nine stops and runs every eight minutes. A "
        "ride "
        "costs two euros; children under six ride free.\n\nQuestion: How often does the tram run?",
        "Answer from the passage only.\n\nPassage: The recipe needs 300 grams of flour, two eggs and a pinch of "
        "salt. The "
        "dough rests for an hour before it is baked at 200 degrees.\n\nQuestion: How long does the dough rest?",
        "Answer from the passage only.\n\nPassage: The swimming pool opens at seven. On Thursdays the long lanes are "
        "kept for the club from five to seven in the evening. A card for ten visits costs thirty euros.\n\nQuestion: "
        "Who uses the long lanes on Thursday evenings?",
        "Answer from the passage only.\n\nPassage: The weather station on the hill was built in 1911. It has measured "
        "rain every morning since then, except in the spring of 1945. The wettest year was 1954.\n\nQuestion: Which "
        "year was the wettest?",
        "Answer from the passage only.\n\nPassage: Violins of this workshop are made of spruce and maple. The wood "
        "dries for ten years before it is used. One instrument takes about two hundred hours.\n\nQuestion: How long "
        "does the wood dry?",
    ),
    "code": (
        "Write a Python function that checks whether brackets in a string are balanced.",
        "Write a Python function that counts how often each word occurs, without imports.",
        "Write a JavaScript function that shuffles an array.",
        "Write a Python function that turns a list of lists into one flat list.",
        "Write a Python class for a bank account with deposit and withdraw.",
        "Write a SQL query that finds the three customers with the most orders.",
    ),
    "chinese": (
        "请介绍一种中国菜的做法。",
        "怎样保持良好的心情？",
        "请解释什么是太阳能。",
        "请介绍一个适合周末去的地方。",
        "学习外语有什么好方法？",
        "为什么海水是咸的？",
    ),
}
