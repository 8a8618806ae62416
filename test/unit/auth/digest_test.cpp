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

TEST_CASE("HMAC-SHA-256 is that of RFC 4231, for keys below, at and above the size of a block", "[auth]") {
  const auto hex = [](const Key& key) {
    std::string text;
    for (const char c : key) {
      text += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
      text += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
    }
    return text;
  };
  CHECK(hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")) == "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hex(hmac_sha256("Jefe", "what do ya want for nothing?")) == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hex(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")) ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  CHECK(hex(hmac_sha256(std::string(131, '\xaa'), "This is a test using a larger than block-size key and a larger than block-size data. "
                                                  "The key needs to be hashed before being used by the HMAC algorithm.")) ==
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}
