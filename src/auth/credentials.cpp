#include "auth/credentials.h"

namespace pgweir::auth {

Credentials credentials_of(const Secret& secret) {
  Credentials credentials;
  switch (secret.form()) {
    case SecretForm::none:
      break;
    case SecretForm::plain:
      credentials.password = secret.text();
      break;
    case SecretForm::md5:
      credentials.md5 = secret.text();
      break;
    case SecretForm::scram:
      break;
  }
  return credentials;
}

}  // namespace pgweir::auth
