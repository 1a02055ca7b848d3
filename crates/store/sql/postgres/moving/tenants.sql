-- whose each queue is
SELECT id, tenant FROM queue
