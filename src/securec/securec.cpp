// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The bounds-checked functions of <securec.h>: a library of its own, so that a program which has them from elsewhere
// does not get these along with the operators.
#include "securec.h"

#include <algorithm>
#include <cstdint>

namespace {

bool is_length(size_t bytes, size_t longest) {
  return bytes > 0 && bytes <= longest;
}

bool overlap(const void* first, size_t first_bytes, const void* second, size_t second_bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(first), other_begin = reinterpret_cast<uintptr_t>(second);
  return begin != other_begin && begin < other_begin + second_bytes && other_begin < begin + first_bytes;
}

errno_t reset_memory(void* dest, size_t bytes, errno_t status) {
  memset(dest, 0, bytes);
  return status;
}

errno_t reset_string(char* dest, errno_t status) {
  *dest = '\0';
  return status;
}

// What memcpy_s and memmove_s have in common.
errno_t check_move(void* dest, size_t dest_max, const void* src, size_t count) {
  if (!is_length(dest_max, SECUREC_MEM_MAX_LEN)) return ERANGE;
  if (dest == nullptr) return EINVAL;
  if (src == nullptr) return reset_memory(dest, dest_max, EINVAL_AND_RESET);
  if (count > dest_max) return reset_memory(dest, dest_max, ERANGE_AND_RESET);
  return EOK;
}

errno_t check_strings(char* dest, size_t dest_max, const char* src, size_t count) {
  if (!is_length(dest_max, SECUREC_STRING_MAX_LEN)) return ERANGE;
  if (dest == nullptr) return EINVAL;
  if (src == nullptr) return reset_string(dest, EINVAL_AND_RESET);
  if (count > SECUREC_STRING_MAX_LEN) return reset_string(dest, ERANGE_AND_RESET);
  return EOK;
}

// Writes at most `count` characters of `src` behind the first `length` of `dest`, and the end mark.
errno_t append(char* dest, size_t dest_max, size_t length, const char* src, size_t count) {
  const size_t added = strnlen(src, std::min(count, dest_max - length));
  if (added >= dest_max - length) return reset_string(dest, ERANGE_AND_RESET);
  const size_t read = added < count ? added + 1 : added;
  if (overlap(dest, length + added + 1, src, read) || (dest == src && length > 0)) {
    return reset_string(dest, EOVERLAP_AND_RESET);
  }
  memmove(dest + length, src, added);
  dest[length + added] = '\0';
  return EOK;
}

// %n writes through a pointer, out of reach of any check. Of what may stand between the two, Z is glibc's old z, and
// w32 and wf32 are C23's.
bool writes_through_argument(const char* format) {
  constexpr const char* kBetween = "0123456789$-+ #'I*.hlLqjztZw";
  while ((format = strchr(format, '%')) != nullptr) {
    ++format;
    format += strspn(format, kBetween);
    const bool is_of_width = *format == 'f' && format[-1] == 'w';
    if (is_of_width) format += 1 + strspn(format + 1, kBetween);
    if (*format == 'n') return true;
    if (*format != '\0') ++format;
  }
  return false;
}

bool can_print(char* dest, size_t dest_max, const char* format) {
  return dest != nullptr && is_length(dest_max, SECUREC_STRING_MAX_LEN) && format != nullptr &&
         !writes_through_argument(format);
}

int refuse_to_print(char* dest, size_t dest_max) {
  if (dest != nullptr && dest_max > 0) *dest = '\0';
  return -1;
}

}  // namespace

errno_t memset_s(void* dest, size_t destMax, int c, size_t count) {
  if (!is_length(destMax, SECUREC_MEM_MAX_LEN)) return ERANGE;
  if (dest == nullptr) return EINVAL;
  memset(dest, c, std::min(count, destMax));
  return count <= destMax ? EOK : ERANGE_AND_RESET;
}

errno_t memcpy_s(void* dest, size_t destMax, const void* src, size_t count) {
  const errno_t status = check_move(dest, destMax, src, count);
  if (status != EOK) return status;
  if (overlap(dest, count, src, count)) return reset_memory(dest, destMax, EOVERLAP_AND_RESET);
  if (dest != src) memcpy(dest, src, count);
  return EOK;
}

errno_t memmove_s(void* dest, size_t destMax, const void* src, size_t count) {
  const errno_t status = check_move(dest, destMax, src, count);
  if (status == EOK) memmove(dest, src, count);
  return status;
}

errno_t strcpy_s(char* strDest, size_t destMax, const char* strSrc) {
  return strncpy_s(strDest, destMax, strSrc, SECUREC_STRING_MAX_LEN);
}

errno_t strncpy_s(char* strDest, size_t destMax, const char* strSrc, size_t count) {
  const errno_t status = check_strings(strDest, destMax, strSrc, count);
  return status == EOK ? append(strDest, destMax, 0, strSrc, count) : status;
}

errno_t strcat_s(char* strDest, size_t destMax, const char* strSrc) {
  return strncat_s(strDest, destMax, strSrc, SECUREC_STRING_MAX_LEN);
}

errno_t strncat_s(char* strDest, size_t destMax, const char* strSrc, size_t count) {
  const errno_t status = check_strings(strDest, destMax, strSrc, count);
  if (status != EOK) return status;
  const size_t length = strnlen(strDest, destMax);
  if (length == destMax) return reset_string(strDest, EINVAL_AND_RESET);
  return append(strDest, destMax, length, strSrc, count);
}

char* strtok_s(char* strToken, const char* strDelimit, char** context) {
  if (strDelimit == nullptr || context == nullptr || (strToken == nullptr && *context == nullptr)) {
    return nullptr;
  }
  return strtok_r(strToken, strDelimit, context);
}

int vsnprintf_s(char* strDest, size_t destMax, size_t count, const char* format, va_list argList) {
  const bool is_unlimited = count == SIZE_MAX;
  if (!can_print(strDest, destMax, format) || (count >= SECUREC_STRING_MAX_LEN && !is_unlimited)) {
    return refuse_to_print(strDest, destMax);
  }
  const size_t room = std::min(count, destMax - 1) + 1;
  const int length = vsnprintf(strDest, room, format, argList);
  if (length >= 0 && static_cast<size_t>(length) < room) return length;
  const bool may_cut = length >= 0 && count < destMax;
  return may_cut ? -1 : refuse_to_print(strDest, destMax);
}

int snprintf_s(char* strDest, size_t destMax, size_t count, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf_s(strDest, destMax, count, format, arguments);
  va_end(arguments);
  return length;
}

int vsprintf_s(char* strDest, size_t destMax, const char* format, va_list argList) {
  return vsnprintf_s(strDest, destMax, SIZE_MAX, format, argList);
}

int sprintf_s(char* strDest, size_t destMax, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = vsprintf_s(strDest, destMax, format, arguments);
  va_end(arguments);
  return length;
}

int vsnprintf_truncated_s(char* strDest, size_t destMax, const char* format, va_list argList) {
  if (!can_print(strDest, destMax, format)) return refuse_to_print(strDest, destMax);
  const int length = vsnprintf(strDest, destMax, format, argList);
  if (length < 0) return refuse_to_print(strDest, destMax);
  return static_cast<int>(std::min(static_cast<size_t>(length), destMax - 1));
}

int snprintf_truncated_s(char* strDest, size_t destMax, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf_truncated_s(strDest, destMax, format, arguments);
  va_end(arguments);
  return length;
}
