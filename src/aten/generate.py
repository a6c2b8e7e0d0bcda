# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""generate.py TABLE FOLDER: entry points and headers of the functions in the table.

One header declares them all, and every other one includes it: which header declares a function differs from one edition
of CANN to the next.
"""

import pathlib
import re
import shutil
import sys

from table import KINDS, Function, read, snake_case

LICENCE = "// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0\n"
COMMON = "aclnn_aten.h"


def prototypes(function: Function) -> tuple[str, str]:
    parameters = [f"{p.c_type} {p.name}" for p in function.parameters]
    first = ", ".join([*parameters, "uint64_t* workspaceSize", "aclOpExecutor** executor"])
    second = "void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream"
    return (
        f"aclnnStatus aclnn{function.name}GetWorkspaceSize({first})",
        f"aclnnStatus aclnn{function.name}({second})",
    )


def documented(function: Function) -> str:
    words = {
        "input": "",
        "output": "out",
        "in_place": "in and out",
        "sized_by_data": "out, of the greatest size; phase 2 sets its view shape",
    }
    lines = [f"/// {function.mathematics}", "///"]
    for p in function.parameters:
        notes = [words[p.role], "may be null" if p.optional else ""]
        used = p.name in function.mathematics or p.role in ("output", "sized_by_data")
        notes.append("" if used else "not used")
        lines.append(f"///   {p.name:20} {KINDS[p.kind][1]}{''.join(f', {note}' for note in notes if note)}")
    first, second = prototypes(function)
    return "\n".join([*lines, f"ACL_FUNC_VISIBILITY {first};", f"ACL_FUNC_VISIBILITY {second};", ""])


def common_header(functions: list[Function]) -> str:
    return f"""{LICENCE}/// The functions of the companion library, which PyTorch's kernels compute.
/// Above each stands its mathematics, in the names of PyTorch's operators.
///
/// 161001  a pointer is null that may not be
/// 161002  types, shapes or attributes that PyTorch refuses, or outputs of another shape or type than the results'
/// What only the kernels can refuse, such as an index in device memory, comes out of the next synchronisation: 507015. So
/// does all of it of functions whose shapes PyTorch computes only together with the results, such as aclnnAbs.
#ifndef ACLGRAD_ACLNNOP_ACLNN_ATEN_H
#define ACLGRAD_ACLNNOP_ACLNN_ATEN_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {{
#endif

{chr(10).join(map(documented, functions))}
/// The shape and the format that a tensor gets from aclnnNpuFormatCast: those that it has. End the shape with delete[].
ACL_FUNC_VISIBILITY aclnnStatus aclnnNpuFormatCastCalculateSizeAndFormat(
    const aclTensor* srcTensor, int dstFormat, int additionalDtype, int64_t** dstShape, uint64_t* dstShapeSize,
    int* actualFormat);

/// The elements of a weight that aclnnTransMatmulWeight has changed: as many as before.
ACL_FUNC_VISIBILITY aclnnStatus aclnnCalculateMatmulWeightSize(const aclIntArray* tensorShape,
                                                               uint64_t* weightTensorSize);
ACL_FUNC_VISIBILITY aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray* tensorShape,
                                                                 aclDataType dataType, uint64_t* weightTensorSize);

#ifdef __cplusplus
}}
#endif

#endif
"""


def entry(function: Function) -> str:
    parameters = ", ".join(
        f'{{"{p.name}", Kind::{KINDS[p.kind][1]}, Role::{p.role}, {str(p.optional).lower()}}}'
        for p in function.parameters
    )
    first, second = prototypes(function)
    described = f"k{function.name}"
    return f"""
constexpr Parameter {described}Parameters[] = {{{parameters}}};
constexpr Function {described} = {{"aclnn{function.name}", {described}Parameters, {len(function.parameters)},
  "{function.parsed.polish()}"}};
extern "C" {first} {{
  const Value arguments[] = {{{", ".join(p.name for p in function.parameters)}}};
  return plan_function({described}, arguments, interpreter, workspaceSize, executor);
}}
extern "C" {second} {{
  return run_function({described}, workspace, workspaceSize, executor, stream);
}}
"""


def header_names(functions: list[Function], further: list[str]) -> set[str]:
    names = {snake_case(function.name) for function in functions} | set(further)
    names |= {re.sub(r"(?<=[a-z])(?=\d+d)", "_", name) for name in names}  # upsample_nearest_2d, too
    return names | {name.removeprefix("inplace_") for name in names}


def main() -> None:
    table, folder = map(pathlib.Path, sys.argv[1:])
    functions, further = read(table)
    headers = folder / "aclnnop"
    shutil.rmtree(headers, ignore_errors=True)
    (headers / "level2").mkdir(parents=True)
    (headers / COMMON).write_text(common_header(functions))
    for name in sorted(header_names(functions, further)):
        for place in (headers, headers / "level2"):
            (place / f"aclnn_{name}.h").write_text(f'{LICENCE}#include "aclnnop/{COMMON}"\n')
    includes = f'#include "aclnnop/{COMMON}"\n#include "executor/companion.h"\n'
    using = "using namespace aclgrad::companion;\nInterpreter& interpreter();  // of load.cpp\n"
    (folder / "entries.cpp").write_text(LICENCE + includes + using + "".join(map(entry, functions)))


main()
