"""Frames are looked into once, and no longer where no batch is ever in them."""

import sys

from rnncheck.watching.seams.looked_into import LookedInto


def names(looked):
    """Of the frames of this file that are looked into from the caller on."""
    mine = (
        one for one in looked.further_on(sys._getframe(1)) if one.f_code.co_filename == __file__
    )
    return [one.f_code.co_name for one in mine]


def test_a_frame_that_waits_is_not_looked_into_again():
    looked, found = LookedInto(), []

    def inner():
        found.append(names(looked))

    for _ in range(2):
        inner()
    assert found[0][0] == "inner"
    assert found[1] == ["inner"]  # another call of it; who calls it stands where it stood
    inner()
    assert found[2] == ["inner", "test_a_frame_that_waits_is_not_looked_into_again"]


def test_many_looks_without_a_batch_are_the_last_until_all_is_forgotten():
    looked = LookedInto()
    for _ in range(255):
        looked.gave(batches=False)
    assert not looked.in_vain
    looked.gave(batches=False)
    assert looked.in_vain
    looked.forget()
    assert not looked.in_vain


def test_a_batch_that_is_there_keeps_it_looking():
    looked = LookedInto()
    for number in range(1_000):
        looked.gave(batches=number % 200 == 0)
    assert not looked.in_vain
