BEGIN TRANSACTION;
CREATE TABLE about (
	"key" VARCHAR NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "about" VALUES('format','deixis-annotate');
INSERT INTO "about" VALUES('version','3');
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
INSERT INTO "barred" VALUES(7,'w5e2174f79551');
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
INSERT INTO "checks" VALUES(1,'w666ae5ae3503','drawing','work',NULL,4,1);
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
INSERT INTO "events" VALUES(1,'P7WAFVZUTWhfRckV','dog0','w8b21e5e67f1b',1000.0,'judged','link',0.0,NULL,'{"task": "link", "subject": "0:0-5 1:0-7", "seconds": 0.0, "answer": "yes"}');
INSERT INTO "events" VALUES(2,'uwiDQSjZP4qJBOT2','dog0','w666ae5ae3503',1000.0,'judged','verify',0.0,NULL,'{"task": "verify", "subject": "0:0-5 1:0-7", "seconds": 0.0, "answer": "yes"}');
INSERT INTO "events" VALUES(3,'ltRavUzQMfcisPPn','dog0','w8b21e5e67f1b',1000.0,'judged','requirement',0.0,NULL,'{"task": "requirement", "subject": "1:0-7", "seconds": 0.0, "answer": "box"}');
INSERT INTO "events" VALUES(4,'LEfxjRCo7TsFfCRB','dog0','w666ae5ae3503',1000.0,'judged','drawing',0.0,NULL,'{"task": "drawing", "subject": "1:0-7", "seconds": 0.0, "answer": "drawn", "box": [10.0, 10.0, 60.0, 50.0]}');
INSERT INTO "events" VALUES(5,'4KnsVR1cr5aCL23I','dog0','w8b21e5e67f1b',1000.0,'judged','quality',0.0,NULL,'{"task": "quality", "subject": "1:0-7 ?b4", "seconds": 0.0, "answer": "good"}');
INSERT INTO "events" VALUES(6,'E2WmCf7BbHZjKNkZ','dog0','w5e2174f79551',1000.0,'judged','coverage',0.0,NULL,'{"task": "coverage", "subject": "1:0-7 b4", "seconds": 0.0, "answer": "all"}');
CREATE TABLE known (
	number INTEGER NOT NULL, 
	photo VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	subject TEXT NOT NULL, 
	asked JSON NOT NULL, 
	answer VARCHAR NOT NULL, 
	boxes JSON NOT NULL, 
	reviewed BOOLEAN NOT NULL, 
	lesson JSON, 
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
INSERT INTO "leases" VALUES('P7WAFVZUTWhfRckV','w8b21e5e67f1b',1,NULL,'work','link','dog0','0:0-5 1:0-7','{"task": "link", "photo": "dog0", "mentions": ["0:0-5", "1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('uwiDQSjZP4qJBOT2','w666ae5ae3503',3,NULL,'work','verify','dog0','0:0-5 1:0-7','{"task": "verify", "photo": "dog0", "mentions": ["0:0-5", "1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('ltRavUzQMfcisPPn','w8b21e5e67f1b',4,NULL,'work','requirement','dog0','1:0-7','{"task": "requirement", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('LEfxjRCo7TsFfCRB','w666ae5ae3503',5,NULL,'work','drawing','dog0','1:0-7','{"task": "drawing", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('4KnsVR1cr5aCL23I','w8b21e5e67f1b',6,NULL,'work','quality','dog0','1:0-7 ?b4','{"task": "quality", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [], "new_box": [10.0, 10.0, 60.0, 50.0]}',1600.0,'answered');
INSERT INTO "leases" VALUES('E2WmCf7BbHZjKNkZ','w5e2174f79551',7,NULL,'work','coverage','dog0','1:0-7 b4','{"task": "coverage", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [[10.0, 10.0, 60.0, 50.0]], "new_box": null}',1600.0,'answered');
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
INSERT INTO "standings" VALUES('w8b21e5e67f1b','link','trusted',0);
INSERT INTO "standings" VALUES('w8b21e5e67f1b','verify','trusted',0);
INSERT INTO "standings" VALUES('w8b21e5e67f1b','requirement','trusted',0);
INSERT INTO "standings" VALUES('w8b21e5e67f1b','drawing','first items',0);
INSERT INTO "standings" VALUES('w8b21e5e67f1b','quality','trusted',0);
INSERT INTO "standings" VALUES('w8b21e5e67f1b','coverage','trusted',0);
INSERT INTO "standings" VALUES('w8b21e5e67f1b','pair','trusted',0);
INSERT INTO "standings" VALUES('w666ae5ae3503','link','trusted',0);
INSERT INTO "standings" VALUES('w666ae5ae3503','verify','trusted',0);
INSERT INTO "standings" VALUES('w666ae5ae3503','requirement','trusted',0);
INSERT INTO "standings" VALUES('w666ae5ae3503','drawing','first items',0);
INSERT INTO "standings" VALUES('w666ae5ae3503','quality','trusted',0);
INSERT INTO "standings" VALUES('w666ae5ae3503','coverage','trusted',0);
INSERT INTO "standings" VALUES('w666ae5ae3503','pair','trusted',0);
INSERT INTO "standings" VALUES('w5e2174f79551','link','trusted',0);
INSERT INTO "standings" VALUES('w5e2174f79551','verify','trusted',0);
INSERT INTO "standings" VALUES('w5e2174f79551','requirement','trusted',0);
INSERT INTO "standings" VALUES('w5e2174f79551','drawing','first items',0);
INSERT INTO "standings" VALUES('w5e2174f79551','quality','trusted',0);
INSERT INTO "standings" VALUES('w5e2174f79551','coverage','trusted',0);
INSERT INTO "standings" VALUES('w5e2174f79551','pair','trusted',0);
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
INSERT INTO "workers" VALUES('w8b21e5e67f1b','Ann','3086011191c1f0b25ae9a0c9859ebf8a851919717b0ddd783e90d6c6624893cf',NULL,'worker',1000.0,NULL,1,0,0.0,0);
INSERT INTO "workers" VALUES('w666ae5ae3503','Bob','87882283647824819f9709f17ee43f8c86d2afbc1ff6ae66201de64a2f2a283b',NULL,'worker',1000.0,NULL,1,0,0.0,0);
INSERT INTO "workers" VALUES('w5e2174f79551','Cy','0ab6dc4172312a9873d6cc1ae4f564cac25fd073555517d2a5228e50a6489737',NULL,'worker',1000.0,NULL,1,0,0.0,0);
INSERT INTO "workers" VALUES('w20454a1ff5fc','Dee','f5e6cc49200e509d5216227f062abde3d7657d7680b5f06525210f389c9d0c92',NULL,'worker',1000.0,NULL,1,0,0.0,0);
CREATE INDEX events_of_photo ON events (photo, number);
CREATE INDEX events_of_worker ON events (worker, task);
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
