# The two commands of an application that kept a queue of e-mails in Supabase, as its documentation has them.

# 1. Enfileirar um email de teste
curl -X POST http://localhost:54321/rest/v1/rpc/enqueue_email \
  -H "Authorization: Bearer SERVICE_ROLE_KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "p_user_id": "USER_UUID",
    "p_template_type": "welcome_user", 
    "p_recipient_email": "test@example.com",
    "p_payload": {"user_data": {"full_name": "Test User"}}
  }'

# 2. Processar fila manualmente
curl -X POST http://localhost:54321/functions/v1/process-email-queue \
  -H "Authorization: Bearer SERVICE_ROLE_KEY"
