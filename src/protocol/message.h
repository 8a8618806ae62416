// The letters that begin PostgreSQL's messages, version 3 of the protocol.
#pragma once

#include <cstdint>

namespace pgweir::protocol {

/// Client to server.
namespace frontend {
inline constexpr char kBind = 'B';
inline constexpr char kClose = 'C';
inline constexpr char kCopyData = 'd';
inline constexpr char kCopyDone = 'c';
inline constexpr char kCopyFail = 'f';
inline constexpr char kDescribe = 'D';
inline constexpr char kExecute = 'E';
inline constexpr char kFlush = 'H';
inline constexpr char kFunctionCall = 'F';
inline constexpr char kParse = 'P';
/// PasswordMessage, SASLInitialResponse, SASLResponse and GSSResponse share one letter.
inline constexpr char kPassword = 'p';
inline constexpr char kQuery = 'Q';
inline constexpr char kSync = 'S';
inline constexpr char kTerminate = 'X';
}  // namespace frontend

/// Server to client.
namespace backend {
inline constexpr char kAuthentication = 'R';
inline constexpr char kBackendKeyData = 'K';
inline constexpr char kBindComplete = '2';
inline constexpr char kCloseComplete = '3';
inline constexpr char kCommandComplete = 'C';
inline constexpr char kCopyBothResponse = 'W';
inline constexpr char kCopyData = 'd';
inline constexpr char kCopyDone = 'c';
inline constexpr char kCopyInResponse = 'G';
inline constexpr char kCopyOutResponse = 'H';
inline constexpr char kDataRow = 'D';
inline constexpr char kEmptyQueryResponse = 'I';
inline constexpr char kErrorResponse = 'E';
inline constexpr char kFunctionCallResponse = 'V';
inline constexpr char kNegotiateProtocolVersion = 'v';
inline constexpr char kNoData = 'n';
inline constexpr char kNoticeResponse = 'N';
inline constexpr char kNotificationResponse = 'A';
inline constexpr char kParameterDescription = 't';
inline constexpr char kParameterStatus = 'S';
inline constexpr char kParseComplete = '1';
inline constexpr char kPortalSuspended = 's';
inline constexpr char kReadyForQuery = 'Z';
inline constexpr char kRowDescription = 'T';
}  // namespace backend

/// The number that begins the body of an Authentication message.
namespace authentication {
inline constexpr std::uint32_t kOk = 0;
inline constexpr std::uint32_t kCleartext = 3;
inline constexpr std::uint32_t kMd5 = 5;
inline constexpr std::uint32_t kSasl = 10;
inline constexpr std::uint32_t kSaslContinue = 11;
inline constexpr std::uint32_t kSaslFinal = 12;
}  // namespace authentication

/// The byte of ReadyForQuery.
namespace transaction_status {
inline constexpr char kIdle = 'I';
inline constexpr char kInTransaction = 'T';
inline constexpr char kFailed = 'E';
}  // namespace transaction_status

}  // namespace pgweir::protocol
