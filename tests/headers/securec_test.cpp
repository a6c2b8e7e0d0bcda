// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The bounds-checked functions: results, statuses, and that nothing beyond the destination is touched.
#include "securec.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace {

constexpr size_t kTooLong = SECUREC_MEM_MAX_LEN + 1;

// Characters with guards on both sides, which the end of each test looks at.
class SecurecTest : public testing::Test {
 protected:
  static constexpr size_t kSize = 8;

  SecurecTest() { all_.fill('#'); }
  void TearDown() override {
    for (size_t i = 0; i < kSize; ++i) {
      EXPECT_EQ(all_[i], '#') << "written before the destination";
      EXPECT_EQ(all_[2 * kSize + i], '#') << "written behind the destination";
    }
  }

  char* dest() { return all_.data() + kSize; }
  std::string bytes() { return {dest(), kSize}; }
  // What a call answers, and leaves in the destination.
  void expect(int answer, int expected, const char* text) {
    EXPECT_EQ(answer, expected) << "leaving " << text;
    EXPECT_STREQ(dest(), text);
  }
  void set(const char* text) { std::snprintf(dest(), kSize, "%s", text); }

 private:
  std::array<char, 3 * kSize> all_;
};

TEST_F(SecurecTest, Memset) {
  EXPECT_EQ(memset_s(dest(), kSize, 'x', 3), EOK);
  EXPECT_EQ(bytes(), "xxx#####");
  EXPECT_EQ(memset_s(dest(), kSize, 'y', kSize + 1), ERANGE_AND_RESET);
  EXPECT_EQ(bytes(), "yyyyyyyy");
  EXPECT_EQ(memset_s(dest(), 0, 'z', 1), ERANGE);
  EXPECT_EQ(memset_s(dest(), kTooLong, 'z', 1), ERANGE);
  EXPECT_EQ(memset_s(nullptr, kSize, 'z', 1), EINVAL);
  EXPECT_EQ(bytes(), "yyyyyyyy");
}

TEST_F(SecurecTest, CopiesMemory) {
  const std::string zeros(kSize, '\0');
  for (auto* copy : {memcpy_s, memmove_s}) {
    memset(dest(), '#', kSize);
    EXPECT_EQ(copy(dest(), kSize, "abcdefgh", kSize), EOK);
    EXPECT_EQ(bytes(), "abcdefgh");
    EXPECT_EQ(copy(dest(), kSize, "xy", 0), EOK);
    EXPECT_EQ(copy(dest(), kSize, dest(), kSize), EOK) << "the same address";
    EXPECT_EQ(copy(dest(), 0, "xy", 0), ERANGE);
    EXPECT_EQ(copy(dest(), kTooLong, "xy", 1), ERANGE);
    EXPECT_EQ(copy(nullptr, kSize, "xy", 1), EINVAL);
    EXPECT_EQ(bytes(), "abcdefgh");
    EXPECT_EQ(copy(dest(), kSize, "abcdefghi", kSize + 1), ERANGE_AND_RESET);
    EXPECT_EQ(bytes(), zeros);
    memset(dest(), '#', kSize);
    EXPECT_EQ(copy(dest(), kSize, nullptr, 1), EINVAL_AND_RESET);
    EXPECT_EQ(bytes(), zeros);
  }
}

TEST_F(SecurecTest, OverlapIsForMemmoveAlone) {
  memcpy(dest(), "abcdefgh", kSize);
  EXPECT_EQ(memcpy_s(dest() + 4, 4, dest(), 4), EOK) << "side by side";
  EXPECT_EQ(bytes(), "abcdabcd");
  EXPECT_EQ(memmove_s(dest() + 1, kSize - 1, dest(), 4), EOK);
  EXPECT_EQ(bytes(), "aabcdbcd");
  EXPECT_EQ(memmove_s(dest(), kSize, dest() + 1, 4), EOK);
  EXPECT_EQ(bytes(), "abcddbcd");
  EXPECT_EQ(memcpy_s(dest() + 3, kSize - 3, dest(), 4), EOVERLAP_AND_RESET);
  EXPECT_EQ(bytes(), std::string("abc\0\0\0\0\0", kSize));
  EXPECT_EQ(memcpy_s(dest(), kSize, dest() + 3, 4), EOVERLAP_AND_RESET);
  EXPECT_EQ(bytes(), std::string(kSize, '\0'));
}

TEST_F(SecurecTest, Strcpy) {
  expect(strcpy_s(dest(), kSize, "seven.."), EOK, "seven..");
  expect(strcpy_s(dest(), kSize, dest()), EOK, "seven..");  // the same address
  EXPECT_EQ(strcpy_s(dest(), 0, "x"), ERANGE);
  EXPECT_EQ(strcpy_s(dest(), kTooLong, "x"), ERANGE);
  expect(strcpy_s(nullptr, kSize, "x"), EINVAL, "seven..");
  expect(strcpy_s(dest(), kSize, "eight..."), ERANGE_AND_RESET, "");
  set("abc");
  expect(strcpy_s(dest() + 1, kSize - 1, dest()), EOVERLAP_AND_RESET, "a");
  set("abc");
  EXPECT_EQ(strcpy_s(dest() + 3, kSize - 3, dest()), EOVERLAP_AND_RESET) << "on the source's end mark";
  set("abc");
  expect(strcpy_s(dest(), kSize, nullptr), EINVAL_AND_RESET, "");
}

TEST_F(SecurecTest, Strncpy) {
  expect(strncpy_s(dest(), kSize, "much too long", 7), EOK, "much to");
  expect(strncpy_s(dest(), kSize, "short", 100), EOK, "short");
  expect(strncpy_s(dest(), kSize, dest(), 2), EOK, "sh");  // the same address
  const char no_end_mark[] = {'a', 'b'};
  expect(strncpy_s(dest(), kSize, no_end_mark, 2), EOK, "ab");
  expect(strncpy_s(dest(), kSize, "much too long", 8), ERANGE_AND_RESET, "");
  set("abc");
  expect(strncpy_s(dest(), kSize, "x", kTooLong), ERANGE_AND_RESET, "");
  set("abc");
  expect(strncpy_s(dest(), kSize, "x", 0), EOK, "");
}

TEST_F(SecurecTest, Strcat) {
  set("abc");
  expect(strcat_s(dest(), kSize, "defg"), EOK, "abcdefg");
  EXPECT_EQ(strcat_s(dest(), kSize, ""), EOK);
  EXPECT_EQ(strcat_s(dest(), 0, "x"), ERANGE);
  expect(strcat_s(nullptr, kSize, "x"), EINVAL, "abcdefg");
  expect(strcat_s(dest(), kSize, "h"), ERANGE_AND_RESET, "");
  set("abc");
  expect(strcat_s(dest(), kSize, dest()), EOVERLAP_AND_RESET, "");
  set("abc");
  expect(strcat_s(dest(), kSize, nullptr), EINVAL_AND_RESET, "");
  memset(dest(), 'x', kSize);
  expect(strcat_s(dest(), kSize, "y"), EINVAL_AND_RESET, "");  // no end mark in the destination
}

TEST_F(SecurecTest, Strncat) {
  set("abc");
  expect(strncat_s(dest(), kSize, "defghijk", 4), EOK, "abcdefg");
  expect(strncat_s(dest(), kSize, "h", 0), EOK, "abcdefg");
  expect(strncat_s(dest(), kSize, "hi", 1), ERANGE_AND_RESET, "");
  set("abc");
  expect(strncat_s(dest(), kSize, "h", kTooLong), ERANGE_AND_RESET, "");
}

TEST_F(SecurecTest, Strtok) {
  set("a,,b;c");
  char* context = nullptr;
  EXPECT_EQ(strtok_s(nullptr, ",", &context), nullptr);
  EXPECT_STREQ(strtok_s(dest(), ",;", &context), "a");
  EXPECT_STREQ(strtok_s(nullptr, ",;", &context), "b");
  EXPECT_STREQ(strtok_s(nullptr, ",;", &context), "c");
  EXPECT_EQ(strtok_s(nullptr, ",;", &context), nullptr);
  EXPECT_EQ(strtok_s(dest(), nullptr, &context), nullptr);
  EXPECT_EQ(strtok_s(dest(), ",", nullptr), nullptr);
}

TEST_F(SecurecTest, Sprintf) {
  expect(sprintf_s(dest(), kSize, "%d %s", 12, "abcd"), 7, "12 abcd");
  expect(sprintf_s(dest(), kSize, "%d %s", 12, "abcde"), -1, "");
  EXPECT_EQ(sprintf_s(nullptr, kSize, "x"), -1);
  set("abc");
  expect(sprintf_s(dest(), 0, "x"), -1, "abc");
  expect(sprintf_s(dest(), SECUREC_STRING_MAX_LEN + 1, "x"), -1, "");
  set("abc");
  const char* volatile no_format = nullptr;
  expect(sprintf_s(dest(), kSize, no_format), -1, "");
}

TEST_F(SecurecTest, RefusesToWriteThroughAnArgument) {
  int count = 17;
  const char* volatile plain = "a%n";
  const char* volatile long_form = "%d%%%-5.3lln";
  EXPECT_EQ(sprintf_s(dest(), kSize, plain, &count), -1);
  EXPECT_EQ(snprintf_truncated_s(dest(), kSize, long_form, 1, &count), -1);
  for (const char* volatile modified : {"a%Zn", "a%1$Zn", "a%w32n", "a%wf32n"}) {
    EXPECT_EQ(sprintf_s(dest(), kSize, modified, &count), -1) << modified;
  }
  expect(count, 17, "");
  expect(sprintf_s(dest(), kSize, "%%n%dn", 5), 4, "%n5n");
  expect(sprintf_s(dest(), kSize, "%.1fn", 2.5), 4, "2.5n");
}

TEST_F(SecurecTest, Snprintf) {
  expect(snprintf_s(dest(), kSize, 7, "%s", "seven.."), 7, "seven..");
  expect(snprintf_s(dest(), kSize, 3, "%d", 12345), -1, "123");  // cut
  // A count that reaches the end does not cut.
  expect(snprintf_s(dest(), kSize, kSize, "%s", "eight..."), -1, "");
  expect(snprintf_s(dest(), kSize, SIZE_MAX, "%d", 12), 2, "12");
  expect(snprintf_s(dest(), kSize, kTooLong, "%d", 12), -1, "");
  expect(snprintf_s(dest(), kSize, 0, "%d", 12), -1, "");
}

TEST_F(SecurecTest, SnprintfTruncated) {
  expect(snprintf_truncated_s(dest(), kSize, "%d", 123), 3, "123");
  expect(snprintf_truncated_s(dest(), kSize, "%s", "0123456789"), 7, "0123456");
  EXPECT_EQ(snprintf_truncated_s(dest(), 0, "x"), -1);
  EXPECT_EQ(snprintf_truncated_s(nullptr, kSize, "x"), -1);
}

}  // namespace
