"""Prompts of the kinds on which drafts are accepted least: translation, passages to answer from, Chinese, sums.

Knows nothing of models. What they are about comes from earlier answers and from sentence patterns of our own writing;
what measurements are made on (engine/bench) is written separately: no prompt is in both.
"""

import random
import re

from engine.train.prompts import listed

_LANGUAGES = ("French", "Spanish", "German", "Italian", "Portuguese", "Chinese", "Dutch", "Russian")
_TRANSLATE = (
    "Translate into {language}: {sentence}",
    "Translate into {language}: {sentence}",
    "How would I say this in {language}? {sentence}",
    "Please translate this sentence into {language}, nothing else: {sentence}",
    "请翻译成中文：{sentence}",
)
# Sentences to be brought into English.
_BACK = """Die Kinder spielen nach der Schule im Hof.; Wir haben gestern ein neues Sofa gekauft.;
Wo finde ich hier einen Arzt?; Das Wasser im See ist noch zu kalt.; Mein Onkel arbeitet in einer Bank.;
Bitte schließen Sie das Fenster.; Im Winter fährt kein Bus bis zum Dorf.; Sie hat drei Jahre in Wien gelebt.;
Le pain est plus cher cette année.; Nous partons en vacances la semaine prochaine.; Où se trouve la gare ?;
Il faut arroser les fleurs tous les soirs.; Ma sœur apprend le piano depuis deux ans.;
Le magasin ferme à six heures.; Je voudrais deux billets pour ce soir.;
Les enfants ont construit une cabane dans la forêt.; La biblioteca abre a las diez.;
Mi padre cocina los domingos.; ¿Cuánto cuesta este reloj?; Hace mucho frío en la montaña.;
Los estudiantes leen un libro cada mes.; Ayer perdí mi teléfono en el autobús.; El río cruza toda la ciudad.;
Necesitamos una habitación con dos camas.; La nonna prepara la pasta ogni domenica.;
Il treno per Roma parte alle otto.; Vorrei un caffè e un bicchiere d'acqua.; Il gatto dorme sotto il tavolo.;
O menino gosta de nadar no mar.; A loja fica perto da praça.; Amanhã vamos visitar os nossos avós.;
他每天骑自行车上班。; 这家饭馆的菜很好吃。; 我们下个星期搬家。; 妹妹喜欢画画和唱歌。; 火车晚点了一个小时。;
请把窗户关上。; 山上的空气很新鲜。; 这本书我已经看过两遍了。"""

_CHINESE_SUBJECTS = """地震; 互联网; 茶; 气候变化; 太阳系; 唐诗; 自行车; 疫苗; 新能源汽车; 围棋; 京剧; 大熊猫的保护;
咖啡; 人体的心脏; 海洋; 手机; 股票; 黄河; 丝绸之路; 造纸术; 网上购物; 垃圾分类; 马拉松; 中医; 火山; 数学;
图书馆; 电影; 音乐; 城市交通; 水稻; 沙漠; 森林; 蜜蜂; 钢琴; 足球; 春节; 中秋节;
月球; 机器人; 大数据; 云计算; 操作系统; 量子力学; 基因;
抗生素; 睡眠; 记忆; 压力; 友谊; 时间管理; 写作; 阅读; 旅行; 减肥; 跑步; 瑜伽; 素食; 早餐; 水果; 牛奶; 鸡蛋; 面条"""
_CHINESE = """什么是{}？; 请简单介绍一下{}。; 关于{}，有哪些重要的事情？; 请用三句话介绍{}。; 请写一段关于{}的短文。;
{}为什么重要？; 请列出关于{}的五个要点。; 初学者应该怎样了解{}？; 请向小学生解释{}。; {}有什么好处和坏处？"""

_FROM_PASSAGES = (
    "Answer using the documents only.\n\n{documents}\n\nQuestion: What do they say about {words}?",
    "Use only this text to answer.\n\nText: {one}\n\nQuestion: What does it say about {words}?",
    "Context: {one}\n\nQuestion: Why is {words} mentioned?\nAnswer:",
    "Read the documents and answer in one sentence.\n\n{documents}\n\nQuestion: Which document mentions {words}?",
    "Quote the sentence that mentions {words}.\n\nText: {one}",
    "According to the text, what is said about {words}? If the text does not say, say so.\n\n{one}",
)
_SUM_UP = (
    "Summarise in one sentence:\n\n{one}",
    "Give me a headline for this text:\n\n{one}",
    "List the three main points:\n\n{one}",
    "Tell this to a child in a few words:\n\n{one}",
    "Rewrite this in plain words, and keep all facts:\n\n{one}",
    "Who or what is this text about?\n\n{one}",
)

_SUMS = """A shop sells {a} {thing} a day. How many does it sell in {b} days? Show the steps.;
{who} has {a} {thing} and gives {c} to each of {b} friends. How many are left?;
There are {d} {thing} in {b} equal boxes. How many are in one box?;
A ticket costs {a} euros. A group of {b} gets {c} euros off in all. What does it pay?;
What is {b} percent of {a}0?; What is {d} divided by {b}?; Solve {b}x - {c} = {a} and check the result.;
A tank holds {a}0 litres and loses {b} litres an hour. How much is left after {c} hours?;
{who} walks {b} kilometers an hour. How long does a way of {d} kilometers take?;
The sum of two numbers is {a} and one of them is {b}. Which is the other?;
In a class of {a}, {c} children wear glasses. How many do not?;
A rectangle is {a} cm long and {b} cm wide. What are its area and its perimeter?;
{who} is {b} years older than a sister of {c}. How old are both together?"""
_THINGS = ("eggs", "rolls", "lamps", "oranges", "pens", "chairs", "bottles", "letters", "flowers", "bricks")
_WHO = ("Clara", "Jonas", "Mei", "Ravi", "Elif", "Pedro", "Nora", "Amir", "Julia", "Kofi")

_WORDS, _FEWEST, _MOST = 60, 5, 22  # words of a passage; of a sentence that is to be translated


def thin_prompt(passages: list[str], number: int) -> str:
    """The prompt of this number: the kinds take turns. passages: three earlier answers that it may be about."""
    chance = random.Random(number)
    kind = (_translation, _from_passages, _chinese, _sum_up, _translation, _sum)[number % 6]
    return kind(passages, chance)


def _translation(passages: list[str], chance: random.Random) -> str:
    if chance.random() < 0.25:
        return f"Translate into English: {chance.choice(listed(_BACK))}"
    sentences = [one for passage in passages for one in _sentences(passage)]
    sentence = chance.choice(sentences or ["The letter arrived on a quiet morning in March."])
    return chance.choice(_TRANSLATE).format(language=chance.choice(_LANGUAGES), sentence=sentence)


def _from_passages(passages: list[str], chance: random.Random) -> str:
    short = [" ".join(passage.split()[:_WORDS]) for passage in passages]
    words = short[0].split()
    start = chance.randrange(max(1, len(words) - 3))
    about = " ".join(words[start : start + chance.choice((2, 3))]).strip(".,:;!?*#\"'") or "this"
    documents = "\n\n".join(f"Document {number}: {text}" for number, text in enumerate(short[:2], start=1))
    return chance.choice(_FROM_PASSAGES).format(documents=documents, one=short[0], words=about)


def _sum_up(passages: list[str], chance: random.Random) -> str:
    return chance.choice(_SUM_UP).format(one=" ".join(passages[0].split()[: 2 * _WORDS]))


def _chinese(_passages: list[str], chance: random.Random) -> str:
    return chance.choice(listed(_CHINESE)).format(chance.choice(listed(_CHINESE_SUBJECTS)))


def _sum(_passages: list[str], chance: random.Random) -> str:
    a, b, c = chance.randint(11, 90), chance.randint(2, 12), chance.randint(1, 10)
    values = {"a": a, "b": b, "c": c, "d": a * b, "thing": chance.choice(_THINGS), "who": chance.choice(_WHO)}
    return chance.choice(listed(_SUMS)).format(**values)


def _sentences(passage: str) -> list[str]:
    """Whole sentences of a length that one translates."""
    found = re.findall(r"[A-Z][^.!?\n*#:]+[.!?]", passage)
    return [" ".join(one.split()) for one in found if _FEWEST <= len(one.split()) <= _MOST]
