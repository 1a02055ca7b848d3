-- after name, limit; primary key. Rows of tables that only another dialect has
SELECT name, name, value FROM meta WHERE name > ?1 AND name GLOB 'aside/*' ORDER BY name LIMIT ?2
