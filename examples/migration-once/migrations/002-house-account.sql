insert into accounts (id, balance) values ('house', 100);
