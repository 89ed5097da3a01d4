from html.parser import HTMLParser

import numpy as np

from labelfable import read_votes
from labelfable.evaluation import compare_models
from labelfable.evaluation.page import Cell, curve, scatter, table
from labelfable.evaluation.report import difference, html_report
from tests.crowds import planted_votes
from tests.evaluation.test_compare import Choosy

VOTES, TRUTH = planted_votes(200, [0.9, 0.8, 0.7], 2)
WORDS = np.array(["<b>ham</b>", 'sp"am', None], dtype=object)
RULES = {"<i>first</i>": "says & does", "second": "the 2nd", "third": "the 3rd"}


class Reader(HTMLParser):
    """Text and tags of a page; complains where tags do not match."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        del attrs
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def page_of(*, gold=True):
    votes = read_votes(WORDS[VOTES], sources=list(RULES))
    found = compare_models(votes, ["ds", Choosy()], gold=WORDS[TRUTH] if gold else None)
    return found, html_report(found, "DawidSkene", title="T <1>", about="A & B", rules=RULES, footer="F")


def test_names_are_text_and_never_tags():
    _, page = page_of()
    read = Reader(page)
    assert "b" not in read.tags
    text = "".join(read.words)
    for words in ("T <1>", "A & B", "<b>ham</b>", 'sp"am', "<i>first</i>", "says & does", "F"):
        assert words in text


def test_the_page_says_what_the_comparison_found():
    found, page = page_of()
    text = " ".join(Reader(page).words)
    verdict = found.verdicts[1]
    assert verdict.model == "DawidSkene"
    assert f"{verdict.scores['accuracy']:.1%}" in text
    assert f"{verdict.scores['log_loss']:.3f}" in text
    assert "Choosy has no answer: three sources are too few" in text
    assert page.count("<svg") == 2  # the objective's course, and calibration


def test_without_gold_there_is_no_score_and_no_calibration():
    _, page = page_of(gold=False)
    words = Reader(page).words
    assert page.count("<svg") == 1
    assert "Est. Acc." in words
    assert "Emp. Acc." not in words
    assert "Log loss" not in words


def test_a_majority_vote_report_and_a_model_without_an_answer():
    found = compare_models(VOTES, ["mv", Choosy()], gold=TRUTH)
    Reader(html_report(found, "MajorityVote", title="t", about="a"))
    page = html_report(found, "Choosy", title="t", about="a")
    assert "The labels" not in page
    assert "Sources" in page


def test_differences_know_what_is_good():
    assert difference("accuracy", 0.02) == ("+2.0", "good")
    assert difference("accuracy", -0.02) == ("-2.0", "bad")
    assert difference("log_loss", 0.02) == ("+0.020", "bad")
    assert difference("f1", 0.0001) == ("+0.000", "")


def test_charts_stay_inside_their_frame():
    for drawn in (curve([1.0]), curve([-3e9, 2.0, 2.5]), curve([5.0, 5.0]), scatter([(0, 0, 1), (1, 1, 9)])):
        assert "nan" not in drawn
        assert Reader(drawn).tags[0] == "svg"
    assert "-3G" in curve([-3e9, 2.0])


def test_cells_are_marked_as_they_should_be():
    made = table(["Name", "Words", "Share"], [("a", [Cell("x", is_text=True), Cell("50%", "-1", "bad", 0.5)])], "a")
    assert '<tr class="chosen">' in made
    assert '<td class="text">x</td>' in made
    assert '<small class="bad">-1</small>' in made
    assert "width:50.0%" in made
