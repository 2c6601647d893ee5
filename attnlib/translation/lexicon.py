"""The words of the grammar: what each is called in both languages, and what it goes with."""

from typing import NamedTuple


class Adjective(NamedTuple):
    """``attribute`` stands before a noun, ``predicate`` after 很. Two on one scale contradict each other."""

    attribute: str
    predicate: str
    en: str
    scale: str


class Noun(NamedTuple):
    """A thing, an animal or a person; ``measure`` is its measure word."""

    zh: str
    en: str
    plural: str
    measure: str
    attributes: tuple[Adjective, ...] = ()
    predicates: tuple[Adjective, ...] = ()
    vessel: tuple[str, str] = ()


class Verb(NamedTuple):
    """English base, third person, past and -ing form; ``particle`` follows them all (play *with*)."""

    zh: str
    base: str
    third: str
    past: str
    ing: str
    objects: tuple[Noun, ...]
    tenses: tuple[str, ...]
    places: tuple[str, ...] = ()
    particle: str = ""


class Pronoun(NamedTuple):
    """``kind`` is 1, 2, 3 for he and 4 for she, with or without others."""

    zh: str
    subject: str
    object: str
    kind: int
    plural: bool = False


I, YOU, HE, SHE = (
    Pronoun("我", "I", "me", 1), Pronoun("你", "you", "you", 2), Pronoun("他", "he", "him", 3),
    Pronoun("她", "she", "her", 4),
)  # fmt: skip
WE, THEY = Pronoun("我们", "we", "us", 1, True), Pronoun("他们", "they", "them", 3, True)
PRONOUNS = (I, YOU, HE, SHE, WE, THEY)

RED, BLACK, HOT = Adjective("红", "红", "red", "red"), Adjective("黑", "黑", "black", "black"), Adjective(
    "热", "热", "hot", "hot"
)  # fmt: skip
BIG, SMALL = Adjective("大", "大", "big", "size"), Adjective("小", "小", "small", "size")
NEW, OLD = Adjective("新", "新", "new", "age"), Adjective("旧", "旧", "old", "age")
GOOD = Adjective("好", "好", "good", "good")
OLD_FRIEND = Adjective("老", "老", "old", "age")
LONG, SHORT = Adjective("长", "长", "long", "length"), Adjective("短", "短", "short", "length")
DEAR, CHEAP = Adjective("贵", "贵", "expensive", "price"), Adjective("便宜", "便宜", "cheap", "price")
INTERESTING = Adjective("有趣的", "有趣", "interesting", "interest")
CUTE = Adjective("可爱的", "可爱", "cute", "cute")
SWEET = Adjective("甜", "甜", "sweet", "taste")
TASTY = Adjective("好吃的", "好吃", "delicious", "taste")
TASTY_DRINK = Adjective("好喝的", "好喝", "delicious", "taste")
FRESH = Adjective("新鲜的", "新鲜", "fresh", "fresh")
HAPPY, TIRED, BUSY = (
    Adjective("", "高兴", "happy", "mood"), Adjective("", "累", "tired", "mood"),
    Adjective("", "忙", "busy", "mood"),
)  # fmt: skip
MOODS = (HAPPY, TIRED, BUSY)
UNWELCOME = (DEAR, OLD, LONG)  # what one says after "but"

FOOD = (
    Noun("苹果", "apple", "apples", "个", (RED, BIG, SMALL), (SWEET, TASTY, FRESH)),
    Noun("橙子", "orange", "oranges", "个", (BIG, SMALL), (SWEET, TASTY, DEAR)),
    Noun("梨", "pear", "pears", "个", (BIG, SMALL), (SWEET, TASTY, FRESH)),
    Noun("鸡蛋", "egg", "eggs", "个", (BIG, SMALL), (TASTY, FRESH)),
    Noun("蛋糕", "cake", "cakes", "个", (BIG, SMALL), (SWEET, TASTY, DEAR)),
)
DRINKS = tuple(
    Noun(zh, en, en, "杯", (HOT,), (HOT, TASTY_DRINK), ("cup", "cups"))
    for zh, en in (("茶", "tea"), ("咖啡", "coffee"), ("牛奶", "milk"))
)
BOOK = Noun("书", "book", "books", "本", (NEW, OLD, GOOD, INTERESTING), (INTERESTING, DEAR, CHEAP))
NOVEL = Noun("小说", "novel", "novels", "本", (NEW, OLD, GOOD, LONG), (INTERESTING, LONG, SHORT))
LETTER = Noun("信", "letter", "letters", "封", (NEW, OLD, LONG), (LONG, SHORT, INTERESTING))
COMPUTER = Noun("电脑", "computer", "computers", "台", (NEW, OLD), (DEAR, CHEAP, OLD))
RADIO = Noun("收音机", "radio", "radios", "台", (NEW, OLD, SMALL), (DEAR, CHEAP, OLD))
POWER = Noun("变压器", "transformer", "transformers", "台", (NEW, OLD, BIG), (DEAR, OLD, BIG))
MODEL = Noun("模型", "transformer", "transformers", "个", (NEW, BIG, SMALL), (BIG, SMALL, GOOD))
ROBOT = Noun("变形金刚", "transformer", "transformers", "个", (NEW, OLD, RED, BIG), (DEAR, CHEAP, OLD))
TOY = Noun("玩具", "toy", "toys", "个", (NEW, OLD, RED, SMALL), (DEAR, CHEAP, OLD))
BALL = Noun("球", "ball", "balls", "个", (NEW, RED, BIG, SMALL), (CHEAP, OLD, BIG))
CAT, DOG, BIRD = (
    Noun(zh, en, f"{en}s", "只", (BIG, SMALL, BLACK), (CUTE, BIG, SMALL))
    for zh, en in (("猫", "cat"), ("狗", "dog"), ("鸟", "bird"))
)
ANIMALS = (CAT, DOG, BIRD)
TEACHER = Noun("老师", "teacher", "teachers", "个", (NEW, GOOD), MOODS)
STUDENT = Noun("学生", "student", "students", "个", (NEW, GOOD), MOODS)
DOCTOR = Noun("医生", "doctor", "doctors", "个", (NEW, GOOD), MOODS)
CHILD = Noun("孩子", "child", "children", "个", (), MOODS)
FRIEND = Noun("朋友", "friend", "friends", "个", (NEW, GOOD, OLD_FRIEND, OLD_FRIEND), MOODS)
PEOPLE = (TEACHER, STUDENT, DOCTOR, CHILD, FRIEND)
WHO_ACTS = (TEACHER, STUDENT, DOCTOR, CHILD)  # 朋友 alone is nobody's friend

PAST, NOW, FUTURE, DAILY, WANT, STATE = "past", "now", "future", "daily", "want", "state"
MOST = (PAST, NOW, FUTURE, WANT)

EAT = Verb("吃", "eat", "eats", "ate", "eating", FOOD, (*MOST, DAILY), ("家", "学校", "公园", "办公室"))
DRINK = Verb("喝", "drink", "drinks", "drank", "drinking", DRINKS, (*MOST, DAILY),
             ("家", "学校", "公园", "办公室"))  # fmt: skip
READ = Verb("读", "read", "reads", "read", "reading", (BOOK, NOVEL, LETTER), (*MOST, DAILY),
            ("家", "学校", "公园", "图书馆"))  # fmt: skip
WRITE = Verb("写", "write", "writes", "wrote", "writing", (BOOK, NOVEL, LETTER), MOST,
             ("家", "图书馆", "办公室"))  # fmt: skip
BUY = Verb("买", "buy", "buys", "bought", "buying", (*FOOD, *DRINKS, BOOK, NOVEL, COMPUTER, RADIO, TOY, BALL),
           MOST, ("商店",))  # fmt: skip
REPAIR = Verb("修理", "repair", "repairs", "repaired", "repairing", (COMPUTER, RADIO, POWER, POWER), MOST,
              ("家", "学校", "办公室"))  # fmt: skip
TRAIN = Verb("训练", "train", "trains", "trained", "training", (MODEL, DOG), MOST, ("家", "学校"))
PLAY = Verb("玩", "play", "plays", "played", "playing", (ROBOT, TOY, BALL), (NOW, WANT),
            ("家", "学校", "公园"), "with")  # fmt: skip
SEE = Verb("看见", "see", "sees", "saw", "seeing", (*ANIMALS, *PEOPLE), (PAST,),
           ("学校", "公园", "图书馆", "商店", "办公室"))  # fmt: skip
HELP = Verb("帮助", "help", "helps", "helped", "helping", PEOPLE, MOST, ("学校", "图书馆", "商店"))
WAIT = Verb("等", "wait", "waits", "waited", "waiting", PEOPLE, (NOW, FUTURE),
            ("家", "学校", "公园", "图书馆"), "for")  # fmt: skip
LIKE = Verb("喜欢", "like", "likes", "liked", "liking", (*FOOD, *DRINKS, BOOK, NOVEL, *ANIMALS), (STATE,))
LOVE = Verb("爱", "love", "loves", "loved", "loving", (*ANIMALS, BOOK), (STATE,))

ON_THINGS = (EAT, DRINK, READ, WRITE, BUY, REPAIR, TRAIN, PLAY)
ON_PEOPLE = (SEE, HELP, WAIT)
ACTIONS = ON_THINGS + ON_PEOPLE
STATES = (LIKE, LOVE)

# For each tense when it is; each English word means what the one Chinese word does.
TIMES = {
    PAST: {"昨天": ("yesterday",), "上周": ("last", "week")},
    NOW: {"现在": ("now",)},
    FUTURE: {"明天": ("tomorrow",), "下周": ("next", "week")},
    DAILY: {"每天": ("every", "day")},
    WANT: {"今天": ("today",), "明天": ("tomorrow",)},
}
PLACES = {
    "家": ("at", "home"), "学校": ("at", "school"), "公园": ("in", "the", "park"),
    "图书馆": ("in", "the", "library"), "商店": ("in", "the", "shop"), "办公室": ("in", "the", "office"),
}  # fmt: skip
POSSESSIVES = {"我的": "my", "你的": "your", "他的": "his", "她的": "her"}
