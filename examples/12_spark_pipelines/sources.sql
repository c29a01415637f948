CREATE TABLE clicks (page STRING, is_robot BOOLEAN);
