#include "auth/digest.h"

#include <catch2/catch.hpp>

using namespace pgweir::auth;

TEST_CASE("base64 goes there and back at every length", "[auth]") {
  CHECK(to_base64("") == "");
  CHECK(to_base64("f") == "Zg==");
  CHECK(to_base64("fo") == "Zm8=");
  CHECK(to_base64("foo") == "Zm9v");
  std::string raw;
  for (int i = 0; i < 300; ++i) {
    CHECK(from_base64(to_base64(raw)) == raw);
    raw += static_cast<char>(i * 7);
  }
}

TEST_CASE("what is not base64 is refused", "[auth]") {
  for (const char* bad : {"Z", "Zg", "Zg=", "Zg== ", " Zg=", "Z===", "=Zg=", "Zm9-", "Zg==Zg=="})
    CHECK_FALSE(from_base64(bad));
}

TEST_CASE("md5 has the form that PostgreSQL stores and asks for", "[auth]") {
  CHECK(md5_of_password("secret", "alice") == "4a0a68b43b6cd5cf266fa02f196e2371");
  CHECK(md5_answer(md5_of_password("secret", "alice"), "salt") ==
        "md5" + md5_hex("4a0a68b43b6cd5cf266fa02f196e2371", "salt"));
}

TEST_CASE("secrets are compared whole", "[auth]") {
  CHECK(same_secret("abc", "abc"));
  CHECK(same_secret("", ""));
  CHECK_FALSE(same_secret("abc", "abd"));
  CHECK_FALSE(same_secret("abc", "ab"));
}
