"""Names of torch._dynamo.config reach pellucid.config while pellucid is installed, and have left nothing behind."""

import threading
from unittest import mock

import pytest
import torch._dynamo

import pellucid
from pellucid.takeover import once

theirs, ours = torch._dynamo.config, pellucid.config


@pytest.fixture(autouse=True)
def restored():
    once._told.clear()
    saved = {name: getattr(theirs, name) for name in ("recompile_limit", "suppress_errors", "capture_scalar_outputs")}
    own = {name: getattr(ours, name) for name in ours.options()}
    yield
    for name, value in saved.items():
        setattr(theirs, name, value)
    theirs.reorderable_logging_functions.clear()
    assert {name: getattr(ours, name) for name in ours.options()} == own


def test_set_before_install():
    theirs.recompile_limit = 3
    assert ours.recompile_limit == 8
    with pellucid.installed():
        assert ours.recompile_limit == 3
    assert ours.recompile_limit == 8


def test_set_while_installed_also_by_an_older_name():
    with pellucid.installed():
        theirs.recompile_limit = 5
        assert ours.recompile_limit == 5
        theirs.cache_size_limit = 6
        assert ours.recompile_limit == theirs.recompile_limit == 6
        theirs.suppress_errors = True
        assert ours.suppress_errors
    assert ours.recompile_limit == 8 and not ours.suppress_errors


def test_what_somebody_sets_in_pellucid_meanwhile_stays():
    pellucid.install()
    theirs.recompile_limit = 5
    ours.recompile_limit = 7
    pellucid.uninstall()
    assert ours.recompile_limit == 7
    ours.recompile_limit = 8


@pytest.mark.parametrize(
    "patch",
    [
        lambda: theirs.patch(recompile_limit=1, suppress_errors=True),
        lambda: theirs.patch({"recompile_limit": 1, "suppress_errors": True}),
        lambda: theirs.patch({"cache_size_limit": 1, "suppress_errors": True}),
    ],
)
def test_patches(patch):
    with pellucid.installed():
        with patch():
            assert (ours.recompile_limit, ours.suppress_errors) == (theirs.recompile_limit, True) == (1, True)
        assert (ours.recompile_limit, ours.suppress_errors) == (theirs.recompile_limit, False) == (8, False)

        @theirs.patch("recompile_limit", 2)
        def inside(depth):
            assert ours.recompile_limit == 2
            return depth and inside(depth - 1)

        inside(2)
        assert ours.recompile_limit == 8


def test_patch_dynamo_config():
    with pellucid.installed():
        with torch._dynamo.patch_dynamo_config(capture_scalar_outputs=True):
            assert ours.capture_scalar_outputs and theirs.capture_scalar_outputs
        assert not ours.capture_scalar_outputs and not theirs.capture_scalar_outputs


def test_a_patch_is_for_its_thread():
    seen = []
    with pellucid.installed(), theirs.patch(recompile_limit=1):
        thread = threading.Thread(target=lambda: seen.append(ours.recompile_limit))
        thread.start()
        thread.join()
    assert seen == [8]


def test_a_patch_ends_when_its_block_raises():
    with pellucid.installed():
        with pytest.raises(KeyError), theirs.patch(recompile_limit=1):
            raise KeyError
        assert ours.recompile_limit == theirs.recompile_limit == 8


def test_mock_patch():
    with pellucid.installed():
        with mock.patch.object(theirs, "recompile_limit", 2):
            assert ours.recompile_limit == 2
        assert ours.recompile_limit == theirs.recompile_limit == 8


def test_sets_are_shared():
    ours.reorderable_logging_functions.add(len)
    try:
        with pellucid.installed():
            theirs.reorderable_logging_functions.add(print)
            assert ours.reorderable_logging_functions == {print, len}
        assert ours.reorderable_logging_functions == {len} and theirs.reorderable_logging_functions == {print}
    finally:
        ours.reorderable_logging_functions.discard(len)


def test_a_name_without_meaning_says_so_once(recwarn):
    with pellucid.installed():
        for value in (False, True):
            theirs.guard_nn_modules = value
        with theirs.patch(guard_nn_modules=False):
            pass
    told = [warning for warning in recwarn if warning.category is once.NoMeaningWarning]
    assert [str(warning.message).split()[0] for warning in told] == ["torch._dynamo.config.guard_nn_modules"]
    assert told[0].filename == __file__


def test_a_value_that_is_none_of_ours_says_so():
    with pellucid.installed(), pytest.warns(once.NoMeaningWarning, match="recompile_limit"):
        theirs.recompile_limit = -1
    theirs.recompile_limit = 8


def test_what_torch_sets_for_itself_is_told_nobody(recwarn):
    with pellucid.installed():
        torch.cond(torch.tensor(True), lambda x: x, lambda x: -x, (torch.ones(2),))
    assert not [warning for warning in recwarn if warning.category is once.NoMeaningWarning]


def test_unknown_names_are_errors_as_before():
    with pellucid.installed(), pytest.raises(AttributeError):
        theirs.no_such_name = 1


def test_it_matters_to_captures():
    compiled = None
    with pellucid.installed():
        theirs.capture_scalar_outputs = True
        compiled = torch.compile(lambda x: x * x.sum().item(), backend="eager")
        compiled(torch.ones(3))
        assert not pellucid.break_reasons(compiled)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("specialize_int", True),
        ("specialize_float", True),
        ("force_parameter_static_shapes", False),
        ("allow_ignore_mark_dynamic", True),
        ("assume_static_by_default", False),
        ("automatic_dynamic_shapes", False),
        ("dynamic_shapes", False),
    ],
)
def test_options_of_sizes(name, value):
    before = getattr(ours, name)
    assert before is getattr(theirs, name) is not value
    with pellucid.installed(), theirs.patch({name: value}):
        assert getattr(ours, name) is value
    assert getattr(ours, name) is before


def test_what_is_said_of_sizes_reaches_captures():
    made = []

    def backend(gm, inputs):
        made.append(gm)
        return gm.forward

    with pellucid.installed(), theirs.patch(specialize_int=True):
        compiled = torch.compile(lambda x, n: x * n, backend=backend)
        for n in (2, 3, 4):
            assert compiled(torch.ones(2), n)[0] == n
    assert len(made) == 3
