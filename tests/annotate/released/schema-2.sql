BEGIN TRANSACTION;
CREATE TABLE about (
	"key" VARCHAR NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "about" VALUES('format','deixis-annotate');
INSERT INTO "about" VALUES('version','2');
CREATE TABLE assignments (
	id VARCHAR NOT NULL, 
	hit VARCHAR NOT NULL, 
	worker VARCHAR NOT NULL, 
	items INTEGER NOT NULL, 
	done INTEGER NOT NULL, 
	begun_at FLOAT NOT NULL, 
	submit_to TEXT NOT NULL, 
	state VARCHAR NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
CREATE TABLE barred (
	question INTEGER NOT NULL, 
	worker VARCHAR NOT NULL, 
	PRIMARY KEY (question, worker), 
	FOREIGN KEY(question) REFERENCES questions (number) ON DELETE CASCADE
);
INSERT INTO "barred" VALUES(7,'wd7c9635fdcf8');
CREATE TABLE checks (
	number INTEGER NOT NULL, 
	worker VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	purpose VARCHAR NOT NULL, 
	known INTEGER, 
	event INTEGER, 
	"right" BOOLEAN, 
	PRIMARY KEY (number), 
	FOREIGN KEY(worker) REFERENCES workers (id), 
	UNIQUE (event)
);
INSERT INTO "checks" VALUES(1,'w5187709ebbf5','drawing','work',NULL,4,1);
CREATE TABLE events (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	"key" VARCHAR NOT NULL, 
	photo VARCHAR NOT NULL, 
	worker VARCHAR NOT NULL, 
	at FLOAT NOT NULL, 
	kind VARCHAR NOT NULL, 
	task VARCHAR, 
	seconds FLOAT NOT NULL, 
	known INTEGER, 
	body JSON NOT NULL, 
	UNIQUE ("key"), 
	FOREIGN KEY(photo) REFERENCES photos (id), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
INSERT INTO "events" VALUES(1,'C-HpEMw43TxG3RY2','dog0','w45f2913d887e',1000.0,'judged','link',0.0,NULL,'{"task": "link", "subject": "0:0-5 1:0-7", "seconds": 0.0, "answer": "yes"}');
INSERT INTO "events" VALUES(2,'MA-60-y7ZFJLGwaI','dog0','w5187709ebbf5',1000.0,'judged','verify',0.0,NULL,'{"task": "verify", "subject": "0:0-5 1:0-7", "seconds": 0.0, "answer": "yes"}');
INSERT INTO "events" VALUES(3,'t6xOoZN5ss0SPAa2','dog0','w45f2913d887e',1000.0,'judged','requirement',0.0,NULL,'{"task": "requirement", "subject": "1:0-7", "seconds": 0.0, "answer": "box"}');
INSERT INTO "events" VALUES(4,'obaKNPg7eR-WbMGK','dog0','w5187709ebbf5',1000.0,'judged','drawing',0.0,NULL,'{"task": "drawing", "subject": "1:0-7", "seconds": 0.0, "answer": "drawn", "box": [10.0, 10.0, 60.0, 50.0]}');
INSERT INTO "events" VALUES(5,'nLy7T1DSneZpj6_6','dog0','w45f2913d887e',1000.0,'judged','quality',0.0,NULL,'{"task": "quality", "subject": "1:0-7 ?b4", "seconds": 0.0, "answer": "good"}');
INSERT INTO "events" VALUES(6,'mk5YsOZarOD_gft4','dog0','wd7c9635fdcf8',1000.0,'judged','coverage',0.0,NULL,'{"task": "coverage", "subject": "1:0-7 b4", "seconds": 0.0, "answer": "all"}');
CREATE TABLE known (
	number INTEGER NOT NULL, 
	photo VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	subject TEXT NOT NULL, 
	asked JSON NOT NULL, 
	answer VARCHAR NOT NULL, 
	boxes JSON NOT NULL, 
	reviewed BOOLEAN NOT NULL, 
	PRIMARY KEY (number), 
	UNIQUE (photo, task, subject), 
	FOREIGN KEY(photo) REFERENCES photos (id)
);
CREATE TABLE leases (
	token VARCHAR NOT NULL, 
	worker VARCHAR NOT NULL, 
	question INTEGER, 
	known INTEGER, 
	purpose VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	photo VARCHAR NOT NULL, 
	subject TEXT NOT NULL, 
	asked JSON NOT NULL, 
	until FLOAT NOT NULL, 
	state VARCHAR NOT NULL, 
	PRIMARY KEY (token), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
INSERT INTO "leases" VALUES('C-HpEMw43TxG3RY2','w45f2913d887e',1,NULL,'work','link','dog0','0:0-5 1:0-7','{"task": "link", "photo": "dog0", "mentions": ["0:0-5", "1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('MA-60-y7ZFJLGwaI','w5187709ebbf5',3,NULL,'work','verify','dog0','0:0-5 1:0-7','{"task": "verify", "photo": "dog0", "mentions": ["0:0-5", "1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('t6xOoZN5ss0SPAa2','w45f2913d887e',4,NULL,'work','requirement','dog0','1:0-7','{"task": "requirement", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('obaKNPg7eR-WbMGK','w5187709ebbf5',5,NULL,'work','drawing','dog0','1:0-7','{"task": "drawing", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('nLy7T1DSneZpj6_6','w45f2913d887e',6,NULL,'work','quality','dog0','1:0-7 ?b4','{"task": "quality", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [], "new_box": [10.0, 10.0, 60.0, 50.0]}',1600.0,'answered');
INSERT INTO "leases" VALUES('mk5YsOZarOD_gft4','wd7c9635fdcf8',7,NULL,'work','coverage','dog0','1:0-7 b4','{"task": "coverage", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [[10.0, 10.0, 60.0, 50.0]], "new_box": null}',1600.0,'answered');
CREATE TABLE photos (
	id VARCHAR NOT NULL, 
	place INTEGER NOT NULL, 
	known BOOLEAN NOT NULL, 
	material JSON NOT NULL, 
	last_event INTEGER NOT NULL, 
	chains INTEGER NOT NULL, 
	waiting INTEGER NOT NULL, 
	finished BOOLEAN NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (place)
);
INSERT INTO "photos" VALUES('dog0',1,0,'{"photo": "dog0", "captions": ["A dog runs.", "The dog jumps."], "width": 100, "height": 80, "file": null, "sha256": null, "splits": [], "mentions": [["0:0-5", ["animals"]], ["1:0-7", ["animals"]]]}',6,1,0,0);
INSERT INTO "photos" VALUES('dog1',2,0,'{"photo": "dog1", "captions": ["A dog runs.", "The dog jumps."], "width": 100, "height": 80, "file": null, "sha256": null, "splits": [], "mentions": [["0:0-5", ["animals"]], ["1:0-7", ["animals"]]]}',0,1,0,0);
CREATE TABLE questions (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	photo VARCHAR NOT NULL, 
	place INTEGER NOT NULL, 
	task VARCHAR NOT NULL, 
	subject TEXT NOT NULL, 
	asked JSON NOT NULL, 
	leased_until FLOAT NOT NULL, 
	UNIQUE (photo, task, subject), 
	FOREIGN KEY(photo) REFERENCES photos (id)
);
INSERT INTO "questions" VALUES(2,'dog1',2,'link','0:0-5 1:0-7','{"task": "link", "photo": "dog1", "mentions": ["0:0-5", "1:0-7"], "boxes": [], "new_box": null}',0.0);
INSERT INTO "questions" VALUES(7,'dog0',1,'coverage','1:0-7 b4','{"task": "coverage", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [[10.0, 10.0, 60.0, 50.0]], "new_box": null}',0.0);
CREATE TABLE remarks (
	event INTEGER NOT NULL, 
	worker VARCHAR NOT NULL, 
	text TEXT NOT NULL, 
	seen BOOLEAN NOT NULL, 
	PRIMARY KEY (event), 
	FOREIGN KEY(event) REFERENCES events (number)
);
CREATE TABLE requeue (
	worker VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	photo VARCHAR NOT NULL, 
	PRIMARY KEY (worker, task, photo)
);
CREATE TABLE sessions (
	hash VARCHAR NOT NULL, 
	worker VARCHAR NOT NULL, 
	until FLOAT NOT NULL, 
	assignment VARCHAR, 
	PRIMARY KEY (hash), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
CREATE TABLE standings (
	worker VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	level VARCHAR NOT NULL, 
	"after" INTEGER NOT NULL, 
	PRIMARY KEY (worker, task), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
INSERT INTO "standings" VALUES('w45f2913d887e','link','trusted',0);
INSERT INTO "standings" VALUES('w45f2913d887e','verify','trusted',0);
INSERT INTO "standings" VALUES('w45f2913d887e','requirement','trusted',0);
INSERT INTO "standings" VALUES('w45f2913d887e','drawing','first items',0);
INSERT INTO "standings" VALUES('w45f2913d887e','quality','trusted',0);
INSERT INTO "standings" VALUES('w45f2913d887e','coverage','trusted',0);
INSERT INTO "standings" VALUES('w5187709ebbf5','link','trusted',0);
INSERT INTO "standings" VALUES('w5187709ebbf5','verify','trusted',0);
INSERT INTO "standings" VALUES('w5187709ebbf5','requirement','trusted',0);
INSERT INTO "standings" VALUES('w5187709ebbf5','drawing','first items',0);
INSERT INTO "standings" VALUES('w5187709ebbf5','quality','trusted',0);
INSERT INTO "standings" VALUES('w5187709ebbf5','coverage','trusted',0);
INSERT INTO "standings" VALUES('wd7c9635fdcf8','link','trusted',0);
INSERT INTO "standings" VALUES('wd7c9635fdcf8','verify','trusted',0);
INSERT INTO "standings" VALUES('wd7c9635fdcf8','requirement','trusted',0);
INSERT INTO "standings" VALUES('wd7c9635fdcf8','drawing','first items',0);
INSERT INTO "standings" VALUES('wd7c9635fdcf8','quality','trusted',0);
INSERT INTO "standings" VALUES('wd7c9635fdcf8','coverage','trusted',0);
CREATE TABLE workers (
	id VARCHAR NOT NULL, 
	name TEXT, 
	invitation VARCHAR, 
	password TEXT, 
	role VARCHAR NOT NULL, 
	invited_at FLOAT NOT NULL, 
	joined_at FLOAT, 
	vouched BOOLEAN NOT NULL, 
	history_items INTEGER NOT NULL, 
	history_accuracy FLOAT NOT NULL, 
	forgotten BOOLEAN NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (invitation)
);
INSERT INTO "workers" VALUES('w45f2913d887e','Ann','69a207ac2fce2f2cc243e7984155d88747f54ddc0fc3b3120ed4e70801dfa937',NULL,'worker',1000.0,NULL,1,0,0.0,0);
INSERT INTO "workers" VALUES('w5187709ebbf5','Bob','5f4d1badc06636ac15bad2be3c484fd65b137fe7439bc3341c20122640379ee9',NULL,'worker',1000.0,NULL,1,0,0.0,0);
INSERT INTO "workers" VALUES('wd7c9635fdcf8','Cy','c6e09aabe492a1e2f24b50d496b8a8e6777c9d308caf8153c8f4640ed61aa9f0',NULL,'worker',1000.0,NULL,1,0,0.0,0);
INSERT INTO "workers" VALUES('wca20b8568143','Dee','98e62d0449851fc2cd7fc823c14da5bf22d4f11cd3488e5a0cd8c04655733f1c',NULL,'worker',1000.0,NULL,1,0,0.0,0);
CREATE INDEX events_of_worker ON events (worker, task);
CREATE INDEX events_of_photo ON events (photo, number);
CREATE INDEX questions_in_order ON questions (place, number);
CREATE INDEX known_of_task ON known (task);
CREATE UNIQUE INDEX one_holder ON leases (question) WHERE state = 'open';
CREATE INDEX leases_of_worker ON leases (worker, state);
CREATE INDEX checks_of_worker ON checks (worker, task);
CREATE INDEX sessions_of_worker ON sessions (worker);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('questions',7);
INSERT INTO "sqlite_sequence" VALUES('events',6);
COMMIT;
