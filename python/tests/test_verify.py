# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Verification of results from elsewhere, as a function and on the command line."""

import io
import json
import subprocess
import sys
import zipfile

import aclgrad
import ml_dtypes
import numpy
import pytest
from aclgrad.__main__ import main
from aclgrad.verify import OPERATORS, verify
from case import DTYPES
from cases import CASES


def prepared(function, dtype):
    """The arguments of `verify` with our own results."""
    case = next(case for case in CASES.values() if case.function == function)
    arguments = case.arguments(dtype)
    inputs = {name: value for name, value in arguments.items() if name in OPERATORS[function].inputs}
    attributes = {name: value for name, value in arguments.items() if name not in inputs}
    outputs = dict(zip(OPERATORS[function].outputs, case.run(dtype), strict=True))
    return inputs, outputs, attributes


@pytest.mark.parametrize("function", OPERATORS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_our_results_pass(function, dtype):
    report = verify(function, *prepared(function, dtype))
    assert report.passed, str(report)
    assert len(report.outputs) == len(OPERATORS[function].outputs)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_one_wrong_element_fails_and_is_named(dtype):
    inputs, outputs, attributes = prepared("msda_backward", dtype)
    outputs["grad_attention_weights"][1, 5, 2, 0, 3] += 30
    report = verify("msda_backward", inputs, outputs, attributes)
    assert [output.passed for output in report.outputs] == [True, True, False]
    assert report.outputs[2].worst()[0] == (1, 5, 2, 0, 3)
    assert "[1, 5, 2, 0, 3]" in str(report) and str(report).endswith("FAIL: grad_attention_weights")


def test_rule_allows_one_percent_outside():
    inputs, outputs, attributes = prepared("grouped_bias_add", "float16")
    y = outputs["output"]
    inside, outside = y.copy(), y.copy()
    inside.ravel()[: y.size // 100] += 0.05
    outside.ravel()[: y.size // 100 + 1] += 0.05
    for array, passes in ((inside, True), (outside, False)):
        report = verify("grouped_bias_add", inputs, {"output": array}, attributes, max_ulp=1e9)
        assert report.outputs[0].passes_rule is passes and report.passed is passes


def test_ulp_bound():
    inputs, outputs, attributes = prepared("grouped_bias_add", "float16")
    y = outputs["output"]
    large = numpy.unravel_index(numpy.abs(y).argmax(), y.shape)
    for _ in range(6):
        y[large] = numpy.nextafter(y[large], numpy.float16(numpy.inf))
    report = verify("grouped_bias_add", inputs, outputs, attributes)
    assert report.outputs[0].passes_rule and not report.outputs[0].passes_ulp and not report.passed
    assert 5 <= report.outputs[0].errors.largest_ulp <= 7
    assert verify("grouped_bias_add", inputs, outputs, attributes, max_ulp=8).passed


@pytest.mark.parametrize("value", [numpy.nan, numpy.inf])
def test_nan_and_infinity_fail(value):
    inputs, outputs, attributes = prepared("nsa_compress", "float32")
    outputs["output"][3, 1, 2] = value
    report = verify("nsa_compress", inputs, outputs, attributes)
    assert not report.passed and report.outputs[0].worst()[0] == (3, 1, 2)


def test_an_error_just_above_a_bound_does_not_read_as_the_bound():
    x, bias = numpy.float32([[1]]), numpy.float32([[2**-24 + 2**-34]])
    inputs = {"x": x, "bias": bias, "group_ends": numpy.array([1])}
    report = verify("grouped_bias_add", inputs, {"output": x}, max_ulp=0.5)
    text = str(report)
    assert not report.passed and "at most 0.5005 units in the last place (limit 0.5)" in text
    assert text.count("0.5005") == 2 and "aclgrad itself: 0.5\n" in text


def test_overflow_is_expected_to_be_infinite():
    x = numpy.full((2, 3), 60000, numpy.float16)
    inputs = {"x": x, "bias": x[:1], "group_ends": numpy.array([2])}
    infinite = {"output": numpy.full((2, 3), numpy.inf, numpy.float16)}
    assert verify("grouped_bias_add", inputs, infinite).passed
    assert not verify("grouped_bias_add", inputs, {"output": -infinite["output"]}).passed


def test_values_whose_square_overflows():
    x = numpy.full((2, 3), 1e200)
    inputs = {"x": x, "bias": x[:1], "group_ends": numpy.array([2])}
    report = verify("grouped_bias_add", inputs, {"output": numpy.nextafter(2 * x, numpy.inf)})
    assert report.passed and report.outputs[0].errors.largest_ulp == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda output: output[1:],
        lambda output: output.reshape(21, 1, 3, 20),
        lambda output: output.reshape(21, 3, 2, 10),
    ],
)
def test_wrong_shape_fails(change):
    inputs, outputs, attributes = prepared("nsa_compress", "float32")
    report = verify("nsa_compress", inputs, {"output": change(outputs["output"])}, attributes)
    assert not report.passed and "shape: expected [21, 3, 20]" in str(report)


def test_tensors_that_require_gradients_are_taken():
    torch = pytest.importorskip("torch")
    inputs, outputs, attributes = prepared("nsa_compress", "float32")
    inputs["x"] = torch.from_numpy(inputs["x"]).requires_grad_()
    assert verify("nsa_compress", inputs, outputs, attributes).passed


def test_output_by_heads_is_taken():
    inputs, outputs, attributes = prepared("msda_forward", "float32")
    assert verify("msda_forward", inputs, {"output": outputs["output"].reshape(2, 37, 3, 24)}, attributes).passed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"operator": "softmax"}, "operator: expected one of grid_sample, "),
        ({"inputs": {}}, "inputs: expected x, weight, got none"),
        ({"outputs": {}}, "outputs: expected at least one of output"),
        ({"outputs": {"y": 1}}, "outputs: expected output, got y"),
        ({"attributes": {"stride": 4}}, "attributes: expected block, got only stride"),
        ({"max_ulp": -1}, "max_ulp: expected a number that is not negative, got -1"),
        ({"max_ulp": float("nan")}, "max_ulp: expected a number that is not negative, got nan"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    inputs, outputs, attributes = prepared("nsa_compress", "float32")
    arguments = {"operator": "nsa_compress", "inputs": inputs, "outputs": outputs, "attributes": attributes}
    with pytest.raises(ValueError, match=message):
        verify(**(arguments | change))


def test_an_output_without_type_is_refused():
    inputs, _, attributes = prepared("nsa_compress", "float32")
    with pytest.raises(TypeError, match="outputs: output: expected float16, .*, got NoneType"):
        verify("nsa_compress", inputs, {"output": None}, attributes)


@pytest.fixture
def files(tmp_path):
    """An archive of all, and each result as raw memory, in bfloat16."""
    inputs, outputs, _ = prepared("nsa_compress_backward", "bfloat16")
    numpy.savez(tmp_path / "all.npz", **inputs, **outputs)
    for name, array in inputs.items():
        numpy.save(tmp_path / f"{name}.npy", array)
    for name, array in outputs.items():
        array.tofile(tmp_path / f"{name}.bin")
    return tmp_path


ATTRIBUTES = ["--block", "8", "--stride", "4"]


def verify_files(*arguments):
    return main(["verify", "nsa_compress_backward", *map(str, arguments), *ATTRIBUTES])


def grad_x_in(files, wrong=None):
    """The option for the raw memory, in which `wrong` replaces some elements."""
    elements = numpy.fromfile(files / "grad_x.bin", dtype=ml_dtypes.bfloat16)
    for index, value in (wrong or {}).items():
        elements[index] = value
    elements.tofile(files / "grad_x.bin")
    return f"grad_x={files / 'grad_x.bin'}:bfloat16:100,3,20"


def test_command_with_single_files(files, capsys):
    inputs = [f"{name}={files / name}.npy" for name in ("grad_output", "x", "weight", "cu_seqlens")]
    assert verify_files("--input", *inputs, "--output", grad_x_in(files)) == 0
    assert "grad_weight" not in capsys.readouterr().out


def test_paths_may_have_colons(files, tmp_path, capsys):
    place = tmp_path / "run_12:30"
    place.symlink_to(files)
    inputs = [f"{name}={place / name}.npy" for name in ("grad_output", "x", "weight", "cu_seqlens")]
    assert verify_files("--input", *inputs, "--output", grad_x_in(place)) == 0


def test_command_fails_with_status_1(files, capsys):
    assert verify_files(files / "all.npz", "--output", grad_x_in(files, wrong={17: 2.5})) == 1
    assert "[0, 0, 17]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.npz"], "aclgrad verify: missing.npz: No such file or directory\n"),
        (["--input", "x"], "expected NAME=FILE, got 'x'"),
        (["--input", "x=grad_x.bin"], "expected grad_x.bin:TYPE:SHAPE"),
        (["--input", "x=x.npy:float32:2,3"], "x.npy: expected at most x.npy:TYPE, got x.npy:float32:2,3"),
        (["--input", "x=all.npz:float32"], "all.npz: expected an archive without a type or shape, got all.npz:float32"),
        (["--input", "x=grad_x.bin:bfloat16:100,3,21"], "grad_x.bin: expected 6300 elements"),
        (["--input", "x=grad_x.bin:float33:100,3,20"], "grad_x.bin: expected a type of NumPy, fp16, "),
        (["all.npz", "--input", "y=x.npy"], "expected grad_output, x, weight, cu_seqlens, got y"),
        (["all.npz", "--input", "x=x.npy", "x=x.npy"], "aclgrad verify: x: given twice"),
        (["all.npz", "--output", "grad_x=x.npy", "--output", "grad_x=x.npy"], "aclgrad verify: grad_x: given twice"),
    ],
)
def test_command_that_cannot_run_has_status_2(files, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(files)
    assert verify_files(*arguments) == 2
    assert message in capsys.readouterr().err


def array_file():
    stream = io.BytesIO()
    numpy.save(stream, numpy.ones(3))
    return stream.getvalue()


def archive_of(members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, contents in members.items():
            archive.writestr(name, contents)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("file", "contents", "message"),
    [
        ("x.npy", b"", "x.npy: No data left in file"),
        ("x.npy", lambda whole: whole[:-1], "x.npy: "),
        ("x.npy", lambda whole: whole.replace(b"(100, 3", b"(100, 3(", 1), "x.npy: "),
        ("all.npz", b"PK", "all.npz: "),
        ("all.npz", lambda whole: whole[:-30], "all.npz: File is not a zip file"),
        ("all.npz", lambda whole: whole.replace(b"NUMPY", b"NUMPI"), "all.npz: Bad CRC-32 for file"),
        ("all.npz", "x.npy", "all.npz: expected an archive, got one array"),
        ("x.npy", "all.npz", "x.npy: expected one array, got an archive"),
        ("x.npy", lambda whole: whole + b"\0", "x.npy: expected the end of the file behind the data of an array"),
        ("all.npz", lambda whole: archive_of({"x.npy": array_file() + b"\0"}), "all.npz: expected the end of the file"),
        ("all.npz", lambda whole: archive_of({"x.npy": array_file(), "x": array_file()}), "all.npz: x: there are two"),
        ("x.bin", lambda whole: whole + b"\0", "x.bin: expected 2 elements of int32 for [2], 8 bytes, got 9"),
    ],
)
def test_damaged_files_are_named(files, capsys, file, contents, message):
    path = files / file
    numpy.arange(2, dtype="int32").tofile(files / "x.bin")
    if isinstance(contents, str):
        contents = (files / contents).read_bytes()
    path.write_bytes(contents(path.read_bytes()) if callable(contents) else contents)
    array = f"x={path}:int32:2" if file == "x.bin" else f"x={path}"
    assert verify_files(*([path] if file == "all.npz" else ["--input", array])) == 2
    text = capsys.readouterr().err
    assert text.startswith("aclgrad verify: ") and message in text and len(text.splitlines()) == 1


@pytest.mark.parametrize("option", ["--block", "--max-ulp", "--report"])
def test_an_option_that_is_given_twice_is_refused(files, capsys, option):
    assert verify_files(files / "all.npz", option, "8", option, "8") == 2
    assert f"{option}: given twice" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--align-corners", "--json"])
def test_a_switch_that_is_given_twice_is_refused(capsys, option):
    assert main(["verify", "grid_sample", "all.npz", option, option]) == 2
    assert f"{option}: given twice" in capsys.readouterr().err


def test_lack_of_memory_has_status_2(files, monkeypatch, capsys):
    def verify_in_vain(*arguments, **keywords):
        raise MemoryError("std::bad_alloc")

    monkeypatch.setattr("aclgrad.__main__.verify", verify_in_vain)
    assert verify_files(files / "all.npz") == 2
    assert capsys.readouterr().err == "aclgrad verify: out of memory: std::bad_alloc\n"


@pytest.mark.parametrize("name", ["aclnnNsaCompressGrad", "aclnnNsaCompressGradTensor"])
def test_operators_have_the_names_of_aclnn_too(files, capsys, name):
    assert main(["verify", name, str(files / "all.npz"), *ATTRIBUTES]) == 0
    assert capsys.readouterr().out.startswith("nsa_compress_backward: ")
    inputs, outputs, attributes = prepared("nsa_compress_backward", "float32")
    assert verify(name, inputs, outputs, attributes).operator == "nsa_compress_backward"


@pytest.mark.parametrize("name", DTYPES)
def test_types_have_short_names(tmp_path, capsys, name):
    inputs, outputs, _ = prepared("nsa_compress_backward", name)
    files = []
    for key, array in {**inputs, **outputs}.items():
        array.tofile(tmp_path / f"{key}.bin")
        short = name.replace("bfloat", "bf").replace("float", "fp") if key != "cu_seqlens" else "int64"
        files.append(f"{key}={tmp_path / key}.bin:{short}:{','.join(map(str, array.shape))}")
    assert verify_files("--input", *files[: len(inputs)], "--output", *files[len(inputs) :]) == 0
    assert f"grad_x  [100, 3, 20]  {name}  PASS" in capsys.readouterr().out


def no_constant(text):
    raise ValueError(text)


def test_report_as_json(files, capsys):
    outputs = grad_x_in(files, wrong={17: 100, 18: numpy.inf}), f"grad_weight={files / 'x.npy'}"
    assert verify_files(files / "all.npz", "--output", *outputs, "--json") == 1
    report = json.loads(capsys.readouterr().out, parse_constant=no_constant)
    assert report["operator"] == "nsa_compress_backward" and report["passed"] is False
    grad_x, grad_weight = report["outputs"]
    assert grad_x["name"] == "grad_x" and grad_x["dtype"] == "bfloat16" and grad_x["shape"] == [100, 3, 20]
    assert grad_x["accuracy_rule"]["outside"] == 2 and grad_x["accuracy_rule"]["largest_error"] == "inf"
    assert grad_x["ulp"]["largest"] == "inf" and grad_x["ulp"]["largest_of_aclgrad"] < 1
    assert sum(grad_x["ulp"]["histogram"]["elements"]) == 6000
    assert [element["index"] for element in grad_x["worst"][:2]] == [[0, 0, 18], [0, 0, 17]]
    assert [element["value"] for element in grad_x["worst"][:2]] == ["inf", 100.0]
    assert grad_weight == {
        "name": "grad_weight",
        "dtype": "bfloat16",
        "shape": [100, 3, 20],
        "passed": False,
        "expected_shape": [8, 3],
    }


def test_command_says_its_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"aclgrad {aclgrad.__version__}\n"


def test_help_names_all_operators(capsys):
    for arguments in (["--help"], ["verify", "--help"]):
        assert main(arguments) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert all(f"{name}," in text or f"{name}." in text or f" {name} " in text for name in OPERATORS)
    assert "nsa_compress_backward (aclnnNsaCompressGrad, aclnnNsaCompressGradTensor)" in text


def test_command_draws_a_picture(files):
    pytest.importorskip("matplotlib")
    picture = files / "report.png"
    assert verify_files(files / "all.npz", "--report", picture) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_command_says_what_a_picture_needs(files, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert verify_files(files / "all.npz", "--report", "report.png") == 2
    assert "pip install matplotlib" in capsys.readouterr().err


def run_command(folder, redirections, *arguments):
    command = ["sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, "-m", "aclgrad", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


VERIFICATION = ["verify", "nsa_compress_backward", "all.npz", *ATTRIBUTES]
each_command = pytest.mark.parametrize(
    "arguments",
    [VERIFICATION, ["--help"], ["--version"], ["verify", "-h"], ["verify", "nsa_compress_backward", "--help"]],
    ids=" ".join,
)


@each_command
@pytest.mark.parametrize(
    ("redirections", "message"), [(">/dev/full", ": No space left on device"), (">&-", " is closed")]
)
def test_output_that_does_not_arrive_has_status_2(files, redirections, message, arguments):
    result = run_command(files, redirections, *arguments)
    assert result.returncode == 2 and result.stderr == f"aclgrad verify: standard output{message}\n"


@each_command
def test_output_that_arrives_has_status_0(files, arguments):
    result = run_command(files, "", *arguments)
    assert result.returncode == 0 and result.stderr == ""
    assert result.stdout.startswith(("usage: python -m aclgrad", "aclgrad ", "nsa_compress_backward: "))
    assert result.stdout.endswith("\n") and not result.stdout.endswith("\n\n")


@pytest.mark.parametrize("redirections", [">/dev/full 2>/dev/full", ">&- 2>&-"])
def test_message_that_does_not_arrive_has_status_2_too(files, redirections):
    result = run_command(files, redirections, *VERIFICATION)
    assert result.returncode == 2 and result.stdout == result.stderr == ""


def test_picture_on_a_full_disk_has_status_2(files):
    pytest.importorskip("matplotlib")
    (files / "report.png").symlink_to("/dev/full")
    result = run_command(files, "", *VERIFICATION, "--report", "report.png")
    assert result.returncode == 2 and result.stderr == "aclgrad verify: report.png: No space left on device\n"
