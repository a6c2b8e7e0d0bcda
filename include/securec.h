// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// Bounds-checked functions for memory and strings, in the library libc_sec (link with -lc_sec).
///
/// `destMax` is the size of the destination, in bytes. Nothing is ever written beyond it, and every string that is
/// written has its end mark. Functions that return errno_t return EOK, or
///
///   EINVAL              the destination is null
///   ERANGE              destMax is 0 or above SECUREC_MEM_MAX_LEN or SECUREC_STRING_MAX_LEN: nothing is written
///   EINVAL_AND_RESET    the source is null, or the string in the destination has no end mark within destMax
///   ERANGE_AND_RESET    the result does not fit
///   EOVERLAP_AND_RESET  source and destination overlap
///
/// "Reset" sets all destMax bytes to 0 for the functions of memory, and makes the destination the empty string for those
/// of strings. Scanning (sscanf_s), input (gets_s) and wide characters are not here.
#ifndef ACLGRAD_SECUREC_H
#define ACLGRAD_SECUREC_H

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int errno_t;

#ifndef EOK
#define EOK 0
#endif
#ifndef EINVAL_AND_RESET
#define EINVAL_AND_RESET 150
#endif
#ifndef ERANGE_AND_RESET
#define ERANGE_AND_RESET 162
#endif
#ifndef EOVERLAP_AND_RESET
#define EOVERLAP_AND_RESET 182
#endif

#ifndef SECUREC_MEM_MAX_LEN
#define SECUREC_MEM_MAX_LEN 0x7fffffffUL
#endif
#ifndef SECUREC_STRING_MAX_LEN
#define SECUREC_STRING_MAX_LEN 0x7fffffffUL
#endif

#define ACLGRAD_SECUREC_API __attribute__((visibility("default")))
#define ACLGRAD_SECUREC_FORMAT(at, first) __attribute__((format(printf, at, first)))

// ---- Memory ----

/// Sets `count` bytes to the low byte of `c`. count > destMax: all destMax bytes are set to it, ERANGE_AND_RESET.
ACLGRAD_SECUREC_API errno_t memset_s(void* dest, size_t destMax, int c, size_t count);

/// Copies `count` bytes. The same address on both sides is no overlap.
ACLGRAD_SECUREC_API errno_t memcpy_s(void* dest, size_t destMax, const void* src, size_t count);

/// As memcpy_s; the two may overlap.
ACLGRAD_SECUREC_API errno_t memmove_s(void* dest, size_t destMax, const void* src, size_t count);

// ---- Strings ----

/// Copies a string. The same address on both sides is no overlap.
ACLGRAD_SECUREC_API errno_t strcpy_s(char* strDest, size_t destMax, const char* strSrc);

/// Copies at most `count` characters of a string; more than SECUREC_STRING_MAX_LEN: ERANGE_AND_RESET.
ACLGRAD_SECUREC_API errno_t strncpy_s(char* strDest, size_t destMax, const char* strSrc, size_t count);

/// Appends a string.
ACLGRAD_SECUREC_API errno_t strcat_s(char* strDest, size_t destMax, const char* strSrc);

/// Appends at most `count` characters of a string; more than SECUREC_STRING_MAX_LEN: ERANGE_AND_RESET.
ACLGRAD_SECUREC_API errno_t strncat_s(char* strDest, size_t destMax, const char* strSrc, size_t count);

/// The next part of a string between characters of `strDelimit`, null after the last; `strToken` is null but for the
/// first call, and `context` keeps the place. Null where an argument that is needed is null.
ACLGRAD_SECUREC_API char* strtok_s(char* strToken, const char* strDelimit, char** context);

// ---- Formatted output: the number of characters before the end mark, or -1 ----
//
// -1, and the destination is the empty string where it can be: a null pointer, a destMax that is 0 or above
// SECUREC_STRING_MAX_LEN, a format with %n or one that the C library refuses, or text that does not fit.

ACLGRAD_SECUREC_API int sprintf_s(char* strDest, size_t destMax, const char* format, ...)
    ACLGRAD_SECUREC_FORMAT(3, 4);
ACLGRAD_SECUREC_API int vsprintf_s(char* strDest, size_t destMax, const char* format, va_list argList)
    ACLGRAD_SECUREC_FORMAT(3, 0);

/// At most `count` characters. Longer text is cut after `count` where that is below destMax, and the answer is -1 then,
/// too. Where `count` is destMax or more, text that does not fit leaves the empty string.
ACLGRAD_SECUREC_API int snprintf_s(char* strDest, size_t destMax, size_t count, const char* format, ...)
    ACLGRAD_SECUREC_FORMAT(4, 5);
ACLGRAD_SECUREC_API int vsnprintf_s(char* strDest, size_t destMax, size_t count, const char* format,
                                    va_list argList) ACLGRAD_SECUREC_FORMAT(4, 0);

/// Longer text is cut to destMax - 1 characters, which is the answer then, and no failure.
ACLGRAD_SECUREC_API int snprintf_truncated_s(char* strDest, size_t destMax, const char* format, ...)
    ACLGRAD_SECUREC_FORMAT(3, 4);
ACLGRAD_SECUREC_API int vsnprintf_truncated_s(char* strDest, size_t destMax, const char* format,
                                              va_list argList) ACLGRAD_SECUREC_FORMAT(3, 0);

#ifdef __cplusplus
}
#endif

#endif
