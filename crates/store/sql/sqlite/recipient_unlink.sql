-- message; by recipient_by_message
UPDATE recipient SET message = NULL, nonce = NULL WHERE message = ?1
