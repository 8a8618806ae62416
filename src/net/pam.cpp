#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "net/password_judges.h"

#ifdef PGWEIR_WITH_PAM

#include <security/pam_appl.h>

namespace pgweir::net {
namespace {

struct Conversation {
  const std::string* password;
  std::string said;  ///< what a module complained about
};

/// Modules ask for the password without echo. Any other question can't be answered by a client who was asked
/// for a password only.
int converse(int count, const pam_message** messages, pam_response** responses, void* data) {
  auto& conversation = *static_cast<Conversation*>(data);
  if (count <= 0 || count > PAM_MAX_NUM_MSG) return PAM_CONV_ERR;
  auto* answers = static_cast<pam_response*>(std::calloc(static_cast<std::size_t>(count), sizeof(pam_response)));
  if (!answers) return PAM_BUF_ERR;
  bool answered = true;
  for (int i = 0; i < count; ++i) {
    switch (messages[i]->msg_style) {
      case PAM_PROMPT_ECHO_OFF:
        answers[i].resp = strdup(conversation.password->c_str());
        answered = answered && answers[i].resp;
        break;
      case PAM_ERROR_MSG:
        conversation.said = concat({"PAM error: ", messages[i]->msg ? messages[i]->msg : ""});
        break;
      case PAM_TEXT_INFO:
        break;
      default:
        answered = false;
        break;
    }
  }
  if (answered) {
    *responses = answers;
    return PAM_SUCCESS;
  }
  for (int i = 0; i < count; ++i) {
    if (answers[i].resp) explicit_bzero(answers[i].resp, std::strlen(answers[i].resp));
    std::free(answers[i].resp);
  }
  std::free(answers);
  return PAM_CONV_ERR;
}

}  // namespace

Judgement judge_by_pam(const auth::PasswordQuestion& question) {
  Judgement judgement{.right = false, .for_client = "PAM authentication failed", .for_log = {}};
  Conversation conversation{.password = &question.password, .said = {}};
  const pam_conv how{converse, &conversation};
  pam_handle_t* pam = nullptr;
  const char* confdir = question.pam_confdir.empty() ? nullptr : question.pam_confdir.c_str();
  int result = confdir ? pam_start_confdir(question.pam_service.c_str(), question.user.c_str(), &how, confdir, &pam)
                       : pam_start(question.pam_service.c_str(), question.user.c_str(), &how, &pam);
  const char* step = "pam_start";
  if (result == PAM_SUCCESS && !question.client_host.empty()) {
    step = "pam_set_item";
    result = pam_set_item(pam, PAM_RHOST, question.client_host.c_str());
  }
  if (result == PAM_SUCCESS) {
    step = "pam_authenticate";
    result = pam_authenticate(pam, PAM_SILENT | PAM_DISALLOW_NULL_AUTHTOK);
  }
  if (result == PAM_SUCCESS) {
    step = "pam_acct_mgmt";
    result = pam_acct_mgmt(pam, PAM_SILENT);
  }
  judgement.right = result == PAM_SUCCESS;
  if (!judgement.right) {
    judgement.for_log = concat({step, "() failed: ", pam_strerror(pam, result)});
    if (!conversation.said.empty()) judgement.for_log += concat({" (", conversation.said, ")"});
  }
  if (pam) pam_end(pam, result);
  return judgement;
}

}  // namespace pgweir::net

#else

namespace pgweir::net {

Judgement judge_by_pam(const auth::PasswordQuestion&) {
  return {.right = false, .for_client = "PAM authentication failed", .for_log = "this build knows no PAM"};
}

}  // namespace pgweir::net

#endif
