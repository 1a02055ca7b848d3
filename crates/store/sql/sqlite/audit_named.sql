-- sequence; row id
SELECT position, count FROM audit WHERE sequence = ?1
