#include "auth/credentials.h"

namespace pgweir::auth {

void Credentials::forget() noexcept {
  if (password) wipe(*password);
  if (md5) wipe(*md5);
  if (scram) {
    wipe(scram->client_key);
    wipe(scram->server_key);
  }
  password.reset();
  md5.reset();
  scram.reset();
}

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
